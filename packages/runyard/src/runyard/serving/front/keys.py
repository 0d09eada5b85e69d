import hmac
import time

from runyard.model.web_services import ServiceSpec
from runyard.planning.web_services.service_tokens import is_token_good
from runyard.serving.dispatch.request import Refusal


class KeyCheck:
    """Checks the key or token in the Authorization header."""

    def __init__(self, spec: ServiceSpec) -> None:
        self._service_id = spec.id
        self._secret = spec.admission.token_secret
        self._keys = () if self._secret else tuple(key.encode() for key in spec.admission.keys)
        self.is_open = not self._keys and not self._secret

    def refusal(self, authorization: bytes | None) -> Refusal | None:
        if self.is_open:
            return None
        wanted = "token" if self._secret else "key"
        scheme, _, given = (authorization or b"").strip().partition(b" ")
        if scheme.lower() != b"bearer":
            header = f"Authorization: Bearer {wanted.upper()}"
            return Refusal(401, f"This service asks for a {wanted}. Send it in a header: {header}")
        if self._is_valid(given.strip()):
            return None
        if self._secret:
            return Refusal(401, "The token is wrong or has expired. Get a new one with get_token().")
        return Refusal(401, "The key is not one of this service. Get its keys with get_keys().")

    def _is_valid(self, given: bytes) -> bool:
        if self._secret:
            return is_token_good(given.decode("latin-1"), self._secret, self._service_id, time.time())
        found = False
        for key in self._keys:
            found |= hmac.compare_digest(given, key)
        return found
