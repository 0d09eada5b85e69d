import time
from dataclasses import dataclass, replace

from runyard.core.definitions.deployment import service_type
from runyard.core.errors import Conflict, InvalidArgument
from runyard.core.policy import Action
from runyard.core.principal import Principal
from runyard.core.records.assets import Asset
from runyard.serving.deployments.config import asks_for_keys, asks_for_tokens
from runyard.serving.deployments.credentials import ServiceCredentials, new_key
from runyard.serving.deployments.parameters import PARAMETERS
from runyard.serving.deployments.web_services import WebServices
from runyard.serving.deployments.writer import ServiceWriter
from runyard.serving.service_tokens import sign_token

TOKEN_SECONDS = 12 * 3600
REFRESH_AFTER_SECONDS = 10 * 3600


@dataclass(frozen=True)
class SignedToken:
    """Times in seconds since 1970."""

    access_token: str
    refresh_after: int
    expiry_on: int
    token_type: str = "Bearer"


@dataclass(frozen=True)
class Keys:
    """Either is good."""

    primary: str
    secondary: str


class ServiceKeys:
    """Keys of a web service, or tokens that expire."""

    def __init__(self, services: WebServices, credentials: ServiceCredentials, writer: ServiceWriter) -> None:
        self._services, self._credentials, self._writer = services, credentials, writer

    def get(self, who: Principal, workspace: str, name: str) -> Keys:
        """Both keys. Raises Conflict when the web service uses none."""
        service = self._services.get(who, workspace, name, Action.READ_KEYS)
        _require_keys(service)
        credentials = self._credentials.of(service)
        return Keys(credentials.primary, credentials.secondary)

    def renew(self, who: Principal, workspace: str, name: str, which: str, value: str | None = None) -> Keys:
        """Replace the "Primary" or "Secondary" key, by a random one unless `value` is given; workers keep running. With
        tokens, all tokens signed before become invalid."""
        self._services.get(who, workspace, name, Action.RENEW_KEYS)
        field = which.lower()
        if field not in ("primary", "secondary"):
            raise InvalidArgument(f"key must be 'Primary' or 'Secondary', got {ascii(which)[:80]}.")
        chosen = new_key() if value is None else PARAMETERS[f"{field}_key"].check("set_key", value)
        with self._writer.lock:
            service = self._services.get(who, workspace, name, Action.RENEW_KEYS)
            if not asks_for_tokens(service.body["config"]):
                _require_keys(service)
            credentials = replace(self._credentials.of(service), **{field: chosen}, token_secret=new_key())
            self._writer.replace(service, service.body, service.tags, credentials, is_forced=False)
        return Keys(credentials.primary, credentials.secondary)

    def sign(self, who: Principal, workspace: str, name: str) -> SignedToken:
        """Sign a token. Raises Conflict when the web service uses none."""
        service = self._services.get(who, workspace, name, Action.READ_KEYS)
        if not asks_for_tokens(service.body["config"]):
            raise Conflict(f"{name!r} asks for no token.", hint="Deploy or update it with token_auth_enabled=True.")
        now = int(time.time())
        token = sign_token(self._credentials.of(service).token_secret, service.id, now + TOKEN_SECONDS)
        return SignedToken(token, now + REFRESH_AFTER_SECONDS, now + TOKEN_SECONDS)


def _require_keys(service: Asset) -> None:
    config = service.body["config"]
    if asks_for_keys(service_type(service.body["type"]), config):
        return
    if asks_for_tokens(config):
        raise Conflict(f"{service.name!r} asks for tokens, not for keys.", hint="Use get_token().")
    raise Conflict(f"{service.name!r} asks for no key.", hint="Deploy or update it with auth_enabled=True.")
