import hashlib
import hmac
import json
from collections.abc import Collection, Mapping

from runyard.core.definitions.environment import EnvironmentDefinition
from runyard.core.definitions.fields import JsonValue, as_object
from runyard.core.policy import Action, Resource, require
from runyard.core.principal import Principal
from runyard.errors import InvalidArgument, NotFound
from runyard.model.images import ImageSpec
from runyard.planning.image import registries_of, registry_address, registry_of
from runyard.services.secrets import Vault

SECRET_FIELDS = ("username", "password")
LONGEST_FIELD = 64 * 1024
_VAULT_FOLDER = "registry"
_SALT = f"{_VAULT_FOLDER}/.salt"


class RegistryLogins:
    """Moves logins of container registries from environments to the vault, by registry address.

    The last login that was given in a workspace counts.
    """

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def taken_out(self, who: Principal, workspace: str, environment: EnvironmentDefinition) -> EnvironmentDefinition:
        """Store the environment's registry login in the vault and remove it from the definition. Raises Forbidden if
        that would replace a login and the caller may not write secrets."""
        docker = environment.docker
        if not docker.registry_login:
            return environment
        login = {name: _text(docker.registry_login.get(name), name) for name in SECRET_FIELDS}
        if any(login.values()):
            address = registry_address(docker.registry_address) or registry_of(docker.base_image)
            self._keep(who, workspace, address, login)
        registry = as_object(environment.docker_fields()["baseImageRegistry"], "baseImageRegistry")
        kept = {name: value for name, value in registry.items() if name not in SECRET_FIELDS}
        return environment.with_docker(baseImageRegistry=kept)

    def of(self, workspace: str, addresses: Collection[str]) -> dict[str, Mapping[str, str]]:
        """Stored logins of these registries."""
        found = {}
        for address in sorted(addresses):
            try:
                found[address] = json.loads(self._vault.get(workspace, _name(address)))
            except NotFound:
                continue
        return found

    def shown(self, workspace: str, image: ImageSpec) -> str:
        """Salted hash of the logins for the image's registries, which is part of an environment's key; "" for none."""
        logins = self.of(workspace, registries_of(image))
        serialized = json.dumps(logins, sort_keys=True).encode()
        return (
            hmac.new(self._vault.salt(workspace, _SALT), serialized, hashlib.sha256).hexdigest()[:24] if logins else ""
        )

    def _keep(self, who: Principal, workspace: str, address: str, login: Mapping[str, str]) -> None:
        known = self.of(workspace, [address]).get(address)
        if known == login:
            return
        if known is not None:
            require(who, Action.WRITE_SECRET, Resource(f"the login to {address}", workspace=workspace))
        self._vault.put(workspace, _name(address), json.dumps(login))


def _name(address: str) -> str:
    """Name in the vault; users' own secrets have no '/' in theirs."""
    return f"{_VAULT_FOLDER}/{address}"


def _text(value: JsonValue, name: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > LONGEST_FIELD or "\0" in value:
        raise InvalidArgument(
            f"{name} of the ContainerRegistry must be a string of at most {LONGEST_FIELD} characters."
        )
    return value
