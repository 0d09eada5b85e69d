import hashlib
import hmac
import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from runyard.assets.secrets import Vault
from runyard.core.definitions.environment import EnvironmentDefinition
from runyard.core.definitions.fields import JsonValue, as_object
from runyard.core.errors import InvalidArgument, NotFound
from runyard.core.policy import Action, Resource, require
from runyard.core.principal import Principal
from runyard.core.records.launch_plan import ImageSpec
from runyard.core.url_secrets import STARS, redacted, replace_urls, urls_with_secrets
from runyard.environments.planning.image import registries_of, registry_address, registry_of

SECRET_FIELDS = ("username", "password")
LONGEST_FIELD = 64 * 1024
_LOGIN_FOLDER = "registry"
_LOGIN_SALT = f"{_LOGIN_FOLDER}/.salt"


class RegistryLogins:
    """Moves logins of container registries from environments to the vault, by registry address.

    The last login that was given in a workspace counts.
    """

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def without_secrets(
        self, who: Principal, workspace: str, environment: EnvironmentDefinition
    ) -> EnvironmentDefinition:
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
                found[address] = json.loads(self._vault.get(workspace, _login_name(address)))
            except NotFound:
                continue
        return found

    def shown(self, workspace: str, image: ImageSpec) -> str:
        """Salted hash of the logins for the image's registries, which is part of an environment's key; "" for none."""
        logins = self.of(workspace, registries_of(image))
        serialized = json.dumps(logins, sort_keys=True).encode()
        return (
            hmac.new(self._vault.salt(workspace, _LOGIN_SALT), serialized, hashlib.sha256).hexdigest()[:24]
            if logins
            else ""
        )

    def _keep(self, who: Principal, workspace: str, address: str, login: Mapping[str, str]) -> None:
        known = self.of(workspace, [address]).get(address)
        if known == login:
            return
        if known is not None:
            require(who, Action.WRITE_SECRET, Resource(f"the login to {address}", workspace=workspace))
        self._vault.put(workspace, _login_name(address), json.dumps(login))


def _login_name(address: str) -> str:
    """Name in the vault; users' own secrets have no '/' in theirs."""
    return f"{_LOGIN_FOLDER}/{address}"


def _text(value: JsonValue, name: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > LONGEST_FIELD or "\0" in value:
        raise InvalidArgument(
            f"{name} of the ContainerRegistry must be a string of at most {LONGEST_FIELD} characters."
        )
    return value


MOST_ADDRESSES = 100
_ADDRESS_FOLDER = "address"
_ADDRESS_SALT = f"{_ADDRESS_FOLDER}/.salt"
_MARK = re.compile(rf"{re.escape(STARS)}([0-9a-f]{{24}})")


class PrivateAddresses:
    """Moves URLs with passwords in pip lines, channels and Dockerfiles of environments to the vault.

    The vault keeps each URL by its mark, a salted hash of the whole URL; the stored definition has **** and the mark in
    place of the secret. So the same URL with two passwords is kept twice, and a mark is valid only for its own URL.
    """

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def without_secrets(self, workspace: str, value: Any) -> Any:
        """Store the secrets of a JSON value in the vault and replace them by marks. Raises InvalidArgument for more
        than MOST_ADDRESSES."""
        found = set(urls_with_secrets(value))
        if len(found) > MOST_ADDRESSES:
            raise InvalidArgument(
                f"The environment names {len(found)} addresses with passwords, above {MOST_ADDRESSES}.",
                hint="Give the password once, in --index-url or --find-links.",
            )
        new = [one for one in sorted(found) if not self._known(workspace, one)]
        return replace_urls(value, {one: self._kept(workspace, one) for one in new}) if new else value

    def of(self, workspace: str, value: Any) -> dict[str, str]:
        """URLs with their secrets, by the marked URLs in the value."""
        known = {one: self._known(workspace, one) for one in urls_with_secrets(value)}
        return {marked: address for marked, address in known.items() if address}

    def _known(self, workspace: str, address: str) -> str:
        """The URL that a marked one stands for; "" if there is none."""
        mark = _MARK.search(address)
        if mark is None:
            return ""
        try:
            original = self._vault.get(workspace, _address_name(mark[1]))
        except NotFound:
            return ""
        return original if _marked(original, mark[1]) == address else ""

    def _kept(self, workspace: str, address: str) -> str:
        salt = self._vault.salt(workspace, _ADDRESS_SALT)
        mark = hmac.new(salt, address.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:24]
        try:
            self._vault.get(workspace, _address_name(mark))
        except NotFound:
            self._vault.put(workspace, _address_name(mark), address)
        return _marked(address, mark)


def _marked(address: str, mark: str) -> str:
    return redacted(address).replace(STARS, f"{STARS}{mark}")


def _address_name(mark: str) -> str:
    return f"{_ADDRESS_FOLDER}/{mark}"
