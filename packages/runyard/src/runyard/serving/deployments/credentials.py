import json
import secrets
import uuid
from collections.abc import Mapping
from typing import Any

from runyard.assets.secrets import Vault
from runyard.core.records.assets import Asset
from runyard.serving.deployments.service_spec import Credentials

SECRET_KEY = "secret_id"
"""Key in a web service's body: name of its credentials in the vault."""
_FOLDER = "services/"
_KEY_BYTES = 24


class ServiceCredentials:
    """Keys, token secrets and private keys of web services. They are stored encrypted in the vault and in the gateway's
    spec file, never in an asset's body, a log or an error."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def keep(self, workspace: str, service: str, credentials: Credentials) -> str:
        """Store them under a new name and return it. Older ones stay until `forget`."""
        name = f"{_FOLDER}{service}/{uuid.uuid4().hex}"
        self._vault.put(workspace, name, json.dumps(vars(credentials)))
        return name

    def of(self, service: Asset) -> Credentials:
        return Credentials(**json.loads(self._vault.get(service.workspace, service.body[SECRET_KEY])))

    def forget(self, workspace: str, name: str) -> None:
        self._vault.delete(workspace, name)

    def delete_unused(self, workspace: str, used: set[str]) -> None:
        """Delete credentials that an interrupted deployment has left."""
        for name in self._vault.names(workspace):
            if name.startswith(_FOLDER) and name not in used:
                self._vault.delete(workspace, name)


def new_credentials(given: Mapping[str, Any]) -> Credentials:
    """Random keys, unless the user gave some."""
    return Credentials(
        primary=given.get("primary_key") or new_key(),
        secondary=given.get("secondary_key") or new_key(),
        token_secret=new_key(),
        private_key=given.get("ssl_key_pem") or "",
    )


def changed_credentials(before: Credentials, given: Mapping[str, Any]) -> Credentials:
    return Credentials(
        primary=given.get("primary_key") or before.primary,
        secondary=given.get("secondary_key") or before.secondary,
        token_secret=before.token_secret,
        private_key=given.get("ssl_key_pem") or before.private_key,
    )


def new_key() -> str:
    """32 random characters that are valid in a header."""
    return secrets.token_urlsafe(_KEY_BYTES)
