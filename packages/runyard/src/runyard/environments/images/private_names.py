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
    """Names of pulled images that needed a password: a salted hash, so that only a caller with the same password finds
    the image."""

    naming: Naming

    def name_of(self, wanted: ImageSpec, credentials: RegistryCredentials) -> str:
        identity = json.dumps([wanted.base, wanted.platform, credentials.username, credentials.password]).encode()
        # Salted, since all users of the engine see the names of images.
        return self.naming.base(hmac.new(salt_of(self.naming), identity, hashlib.sha256).hexdigest())


def salt_of(naming: Naming) -> bytes:
    """Random secret of the home, for hashes that other users can see; created on first use."""
    file = naming.root / "locks" / SALT
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return _create_salt(file)


def _create_salt(file: Path) -> bytes:
    """Create the salt file atomically: the first of several processes wins."""
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f"{SALT}.{os.getpid()}.{secrets.token_hex(4)}")
    temporary.touch(mode=0o600)
    try:
        temporary.write_bytes(secrets.token_bytes(32))
        with suppress(FileExistsError):
            os.link(temporary, file)
    finally:
        temporary.unlink()
    return file.read_bytes()
