import hashlib
import hmac
import json
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from runyard.containers.registries import RegistryCredentials
from runyard.environments.images.naming import Naming
from runyard.model.images import ImageSpec

SALT = "pulled.salt"


@dataclass(frozen=True)
class PrivateNames:
    """Names under which images that took a password are kept: found only by who gives the same password."""

    naming: Naming

    def name_of(self, wanted: ImageSpec, credentials: RegistryCredentials) -> str:
        told = json.dumps([wanted.base, wanted.platform, credentials.username, credentials.password]).encode()
        # With a salt, since names of images are seen by all who use the engine.
        return self.naming.base(hmac.new(salt_of(self.naming), told, hashlib.sha256).hexdigest())


def salt_of(naming: Naming) -> bytes:
    """The secret of a home, by which what all can see tells nothing of what it stands for."""
    file = naming.root / "locks" / SALT
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return _made_once(file)


def _made_once(file: Path) -> bytes:
    """Of several who make it at once, one wins, whole."""
    file.parent.mkdir(parents=True, exist_ok=True)
    mine = file.with_name(f"{SALT}.{os.getpid()}.{secrets.token_hex(4)}")
    mine.touch(mode=0o600)
    try:
        mine.write_bytes(secrets.token_bytes(32))
        with suppress(FileExistsError):
            os.link(mine, file)
    finally:
        mine.unlink()
    return file.read_bytes()
