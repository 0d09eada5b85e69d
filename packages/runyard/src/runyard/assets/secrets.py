import os
import secrets
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from runyard.assets.workspaces import Workspaces
from runyard.core.errors import InvalidArgument, NotFound, RunyardError
from runyard.core.lookups import find_asset
from runyard.core.names import check_asset_name
from runyard.core.policy import Action
from runyard.core.ports.stores import AssetStore
from runyard.core.principal import Principal
from runyard.core.records.assets import Asset, AssetKind

if TYPE_CHECKING:
    from cryptography.fernet import Fernet

LONGEST_SECRET_BYTES = 1024 * 1024


class Vault:
    """Encrypted values in the store. The key is a file of the home that only its owner can read."""

    def __init__(self, assets: AssetStore, *, key_file: Path) -> None:
        self._assets, self._key_file = assets, key_file
        self._lock, self._salting = threading.Lock(), threading.Lock()
        self._fernet: Fernet | None = None

    def put(self, workspace: str, name: str, value: str) -> None:
        data = value.encode("utf-8", "surrogatepass")
        if len(data) > LONGEST_SECRET_BYTES:
            raise InvalidArgument(f"The secret {name!r} is longer than {LONGEST_SECRET_BYTES} bytes.")
        body = {"cipher": self._cipher().encrypt(data).decode()}
        with self._lock:
            there = self._find(workspace, name)
            if there is None:
                self._assets.add(workspace, AssetKind.SECRET, name, body, {})
            else:
                self._assets.replace(there, body, {})

    def get(self, workspace: str, name: str) -> str:
        """Decrypt a value. Raises NotFound, which names the secret and never a value."""
        from cryptography.fernet import InvalidToken

        there = self._find(workspace, name)
        if there is None:
            raise NotFound(f"There is no secret {name!r} in workspace {workspace!r}.")
        try:
            return self._cipher().decrypt(there.body["cipher"].encode()).decode("utf-8", "surrogatepass")
        except InvalidToken:
            raise RunyardError(
                f"The secret {name!r} cannot be read with the key of this home.", hint="Set it again."
            ) from None

    def salt(self, workspace: str, name: str) -> bytes:
        """A random value of the workspace, created on first use."""
        with self._salting:
            try:
                return self.get(workspace, name).encode()
            except NotFound:
                made = secrets.token_hex(32)
                self.put(workspace, name, made)
                return made.encode()

    def names(self, workspace: str) -> list[str]:
        return [asset.name for asset in self._assets.list(workspace, AssetKind.SECRET, latest_only=True)]

    def delete(self, workspace: str, name: str) -> None:
        self._assets.delete(workspace, AssetKind.SECRET, name)

    def _find(self, workspace: str, name: str) -> Asset | None:
        return find_asset(self._assets, workspace, AssetKind.SECRET, name)

    def _cipher(self) -> "Fernet":
        from cryptography.fernet import Fernet  # takes 20 ms to import, and most services never need it

        if self._fernet is None:
            self._fernet = Fernet(private_file(self._key_file, Fernet.generate_key))
        return self._fernet


class Secrets:
    """The secrets of users. The service's own are in the same vault under names with a '/', which users cannot
    choose."""

    def __init__(self, vault: Vault, workspaces: Workspaces) -> None:
        self._vault, self._workspaces = vault, workspaces

    def put(self, who: Principal, workspace: str, name: str, value: str) -> None:
        self._workspaces.enter(who, Action.WRITE_SECRET, workspace)
        check_asset_name(AssetKind.SECRET, name)
        self._vault.put(workspace, name, value)

    def get(self, who: Principal, workspace: str, name: str) -> str:
        """Raises NotFound."""
        self._workspaces.enter(who, Action.READ_SECRET, workspace)
        check_asset_name(AssetKind.SECRET, name)
        return self._vault.get(workspace, name)

    def names(self, who: Principal, workspace: str) -> list[str]:
        self._workspaces.enter(who, Action.READ_SECRET, workspace)
        return [name for name in self._vault.names(workspace) if "/" not in name]

    def delete(self, who: Principal, workspace: str, name: str) -> None:
        self._workspaces.enter(who, Action.WRITE_SECRET, workspace)
        check_asset_name(AssetKind.SECRET, name)
        self._vault.delete(workspace, name)


def private_file(path: Path, make: Callable[[], bytes]) -> bytes:
    """Content of a file that only its owner can read; created with `make()` if it is missing. Racing processes all get
    the same content."""
    if not path.exists():
        beside = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}")
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as new:
            new.write(make())
            new.flush()
            os.fsync(new.fileno())
        try:
            os.link(beside, path)
        except FileExistsError:
            pass
        finally:
            beside.unlink()
    return path.read_bytes()
