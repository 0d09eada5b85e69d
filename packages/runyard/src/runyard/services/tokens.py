"""Who may speak to the service, told from the token alone."""

import hmac
import re
import time
from urllib.parse import quote, unquote

from runyard.core.policy import Action
from runyard.core.principal import OWNER, Principal, Role
from runyard.model.runs import AttemptId, RunId, run_of

PAGE_DAYS = 7
_DAY = re.compile(r"[0-9a-f]{1,6}")
_OF_ATTEMPTS = (Role.RUN, Role.NODE)
_SCRAPER = Principal(Role.OWNER, scopes=frozenset({Action.READ_FIGURES}))
PAGE_READER = Principal(Role.OWNER, scopes=frozenset({Action.READ_RUN, Action.SEE_DELIVERED}))
"""Who has a key that opens the page of a run: it was given by the owner, for looking alone."""


class Tokens:
    """Makes and checks tokens. All are derived from the owner's: a new one ends every other."""

    def __init__(self, owner_token: str) -> None:
        self._owner = owner_token

    def run_token(self, attempt_id: AttemptId) -> str:
        """What the script of an attempt uses; whether it still goes on is checked by whoever lets it in."""
        return self._of_attempt(Role.RUN, attempt_id)

    def node_token(self, attempt_id: AttemptId) -> str:
        return self._of_attempt(Role.NODE, attempt_id)

    def _of_attempt(self, role: Role, attempt_id: AttemptId) -> str:
        return f"{role}.{quote(attempt_id)}.{self._sign(role, attempt_id)}"  # a header holds no letter beyond ASCII

    def page_key(self, run_id: RunId, last_day: int | None = None) -> str:
        """Opens the page of that run and nothing else, up to a day counted from 1970: a week from now unless given."""
        day = _today() + PAGE_DAYS if last_day is None else last_day
        return f"{day:x}-{self._sign('page', f'{day:x} {run_id}')[:32]}"

    def metrics_token(self) -> str:
        """Opens GET /metrics and nothing else."""
        return f"metrics.{self._sign('metrics', '')}"

    def scraper(self, token: str) -> Principal | None:
        """The caller of GET /metrics; None for a token that is neither the owner's nor the one for that."""
        if _same(token, self._owner):
            return OWNER
        return _SCRAPER if _same(token, self.metrics_token()) else None

    def place_name(self, folder: str) -> str:
        """A name for a folder of this service that no other service gives."""
        return self._sign("place", folder)[:32]

    def page_opens_until(self, run_id: RunId, key: str) -> int | None:
        """The last day of a key for that page; None for one that is wrong or over."""
        written, _, _ = key.partition("-")
        day = int(written, 16) if _DAY.fullmatch(written) else 0
        return day if _same(key, self.page_key(run_id, day)) and day >= _today() else None

    def identify(self, token: str) -> Principal | None:
        """The caller a token belongs to, or None if it is no token of this service. Its workspace is not known yet."""
        if _same(token, self._owner):
            return OWNER
        name, _, signature = token.rpartition(".")
        role, _, escaped = name.partition(".")
        attempt = unquote(escaped)
        if role in _OF_ATTEMPTS and attempt and _same(signature, self._sign(role, attempt)):
            return Principal(Role(role), run_of(AttemptId(attempt)), AttemptId(attempt))
        return None

    def _sign(self, purpose: str, name: str) -> str:
        text = f"{purpose}\n{name}".encode("utf-8", "surrogatepass")
        return hmac.digest(self._owner.encode(), text, "sha256").hex()


def _today() -> int:
    return int(time.time() // 86400)


def _same(given: str, right: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), right.encode())
