"""Creates tokens and identifies callers by them, without a database."""

import hmac
import re
import time
from functools import lru_cache
from urllib.parse import quote, unquote

from runyard.core.policy import Action
from runyard.core.principal import OWNER, Principal, Role
from runyard.core.records.runs import AttemptId, RunId, run_of

PAGE_DAYS = 7
_KNOWN_PAGE_KEYS = 4096
"""Keys kept for runs that are listed again: to sign one takes longer than to make the rest of its record."""
_DAY = re.compile(r"[0-9a-f]{1,6}")
_OF_ATTEMPTS = (Role.RUN, Role.NODE)
_SCRAPER = Principal(Role.OWNER, scopes=frozenset({Action.READ_FIGURES}))
PAGE_READER = Principal(Role.OWNER, scopes=frozenset({Action.READ_RUN, Action.SEE_DELIVERED}))
"""Caller with a key for the page of a run: it may only read that run."""


class Tokens:
    """Creates and checks tokens. All are derived from the owner's token: a new owner token invalidates all others."""

    def __init__(self, owner_token: str) -> None:
        self._owner = owner_token
        self._keyed = hmac.new(owner_token.encode(), digestmod="sha256")
        self._known_page_key = lru_cache(_KNOWN_PAGE_KEYS)(self._page_key)

    def run_token(self, attempt_id: AttemptId) -> str:
        """Token of an attempt's script. `Access` checks that the attempt is still running."""
        return self._of_attempt(Role.RUN, attempt_id)

    def node_token(self, attempt_id: AttemptId) -> str:
        return self._of_attempt(Role.NODE, attempt_id)

    def _of_attempt(self, role: Role, attempt_id: AttemptId) -> str:
        return f"{role}.{quote(attempt_id)}.{self._sign(role, attempt_id)}"  # headers are ASCII

    def page_key(self, run_id: RunId, last_day: int | None = None) -> str:
        """Key for the page of one run, valid until a day counted from 1970; by default for a week."""
        if last_day is None:
            return self._known_page_key(run_id, _today() + PAGE_DAYS)
        return self._page_key(run_id, last_day)

    def _page_key(self, run_id: RunId, last_day: int) -> str:
        return f"{last_day:x}-{self._sign('page', f'{last_day:x} {run_id}')[:32]}"

    def metrics_token(self) -> str:
        """Token for GET /metrics only."""
        return f"metrics.{self._sign('metrics', '')}"

    def scraper(self, token: str) -> Principal | None:
        """Caller of GET /metrics; None if the token is neither the owner's nor the metrics token."""
        if _same(token, self._owner):
            return OWNER
        return _SCRAPER if _same(token, self.metrics_token()) else None

    def place_name(self, folder: str) -> str:
        """Name for a folder of this service that no other service uses."""
        return self._sign("place", folder)[:32]

    def page_opens_until(self, run_id: RunId, key: str) -> int | None:
        """Last day of a key for that page; None if it is wrong or expired."""
        written, _, _ = key.partition("-")
        day = int(written, 16) if _DAY.fullmatch(written) else 0
        return day if _same(key, self.page_key(run_id, day)) and day >= _today() else None

    def identify(self, token: str) -> Principal | None:
        """Caller that the token belongs to, without its workspace; None if it is not a token of this service."""
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
        signed = self._keyed.copy()  # quicker than hmac.digest, which sets up the key again
        signed.update(text)
        return signed.hexdigest()


def _today() -> int:
    return int(time.time() // 86400)


def _same(given: str, right: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), right.encode())
