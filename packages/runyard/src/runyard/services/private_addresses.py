import hashlib
import hmac
import re
from typing import Any

from runyard.errors import InvalidArgument, NotFound
from runyard.planning.passwords import STARS, hidden, private_addresses, replace_addresses
from runyard.services.secrets import Vault

MOST_ADDRESSES = 100
_VAULT_FOLDER = "address"
_SALT = f"{_VAULT_FOLDER}/.salt"
_MARK = re.compile(rf"{re.escape(STARS)}([0-9a-f]{{24}})")


class PrivateAddresses:
    """Moves URLs with passwords in pip lines, channels and Dockerfiles of environments to the vault.

    The vault keeps each URL by its mark, a salted hash of the whole URL; the stored definition has **** and the mark in
    place of the secret. So the same URL with two passwords is kept twice, and a mark is valid only for its own URL.
    """

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def taken_out(self, workspace: str, value: Any) -> Any:
        """Store the secrets of a JSON value in the vault and replace them by marks. Raises InvalidArgument for more
        than MOST_ADDRESSES."""
        found = set(private_addresses(value))
        if len(found) > MOST_ADDRESSES:
            raise InvalidArgument(
                f"The environment names {len(found)} addresses with passwords, above {MOST_ADDRESSES}.",
                hint="Give the password once, in --index-url or --find-links.",
            )
        new = [one for one in sorted(found) if not self._known(workspace, one)]
        return replace_addresses(value, {one: self._kept(workspace, one) for one in new}) if new else value

    def of(self, workspace: str, value: Any) -> dict[str, str]:
        """URLs with their secrets, by the marked URLs in the value."""
        known = {one: self._known(workspace, one) for one in private_addresses(value)}
        return {marked: address for marked, address in known.items() if address}

    def _known(self, workspace: str, address: str) -> str:
        """The URL that a marked one stands for; "" if there is none."""
        mark = _MARK.search(address)
        if mark is None:
            return ""
        try:
            original = self._vault.get(workspace, _name(mark[1]))
        except NotFound:
            return ""
        return original if _marked(original, mark[1]) == address else ""

    def _kept(self, workspace: str, address: str) -> str:
        salt = self._vault.salt(workspace, _SALT)
        mark = hmac.new(salt, address.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:24]
        try:
            self._vault.get(workspace, _name(mark))
        except NotFound:
            self._vault.put(workspace, _name(mark), address)
        return _marked(address, mark)


def _marked(address: str, mark: str) -> str:
    return hidden(address).replace(STARS, f"{STARS}{mark}")


def _name(mark: str) -> str:
    return f"{_VAULT_FOLDER}/{mark}"
