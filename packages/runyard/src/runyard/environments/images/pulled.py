import hashlib
import hmac
import json
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from runyard.containers.engine import Engine
from runyard.containers.images import ImageFacts, ImageInUse, RegistryCredentials
from runyard.environments.images.naming import Naming
from runyard.environments.programs import Say
from runyard.model.images import ImageSpec

SALT = "pulled.salt"


@dataclass(frozen=True)
class PulledBases:
    """Images that we pulled, under names of our own. One that took a password is found only by who gives the same
    password: nobody else has shown the right to it."""

    engine: Engine
    naming: Naming

    def name_of(self, wanted: ImageSpec, credentials: RegistryCredentials | None) -> str:
        shown = [credentials.username, credentials.password] if credentials else []
        told = json.dumps([wanted.base, wanted.platform, *shown]).encode()
        # With a salt, since names of images are seen by all who use the engine.
        return self.naming.base(hmac.new(self._salt(), told, hashlib.sha256).hexdigest())

    def pull(self, wanted: ImageSpec, credentials: RegistryCredentials | None, say: Say) -> ImageFacts:
        was_here = self.engine.images.find(wanted.base) is not None
        pulled = self.engine.images.pull(wanted.base, say, credentials=credentials, platform=wanted.platform)
        self.engine.images.tag(pulled.id, self.name_of(wanted, credentials))
        if credentials and not was_here:
            with suppress(ImageInUse):
                self.engine.images.remove(wanted.base)
        return pulled

    def _salt(self) -> bytes:
        file = self.naming.root / "locks" / SALT
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
