import hashlib
import hmac
import json
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from runyard.core.records.launch_plan import ImageSpec
from runyard.environments.containers.registries import RegistryCredentials

HOME, ENVIRONMENT, BASE = "runyard.home", "runyard.environment", "runyard.base"

USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""PATH in containers of an image that does not set it."""


@dataclass(frozen=True)
class ImageNames:
    """Names of our images and build containers in an engine, for one folder of environments.

    The tag is derived from the home, so that homes which share an engine do not touch each other's images.
    """

    root: Path

    @property
    def home(self) -> str:
        return str(self.root.parent.resolve())

    def environment(self, key: str) -> str:
        return f"runyard/azureml_{key}:{self._tag}"

    def base(self, identity: str) -> str:
        """Name of a base image that was pulled or built for environments."""
        return f"runyard/base_{_short(identity)}:{self._tag}"

    def python(self, identity: str) -> str:
        """Name of a base image with an interpreter of this machine added."""
        return f"runyard/python_{_short(identity)}:{self._tag}"

    def build_container(self, key: str, step: str) -> str:
        """Name of a build container. Labels would not do: a committed image passes them on to all its containers."""
        return f"{self._building}{key}-{step}"

    def key_of_build_container(self, name: str) -> str:
        """Key of the environment that a build container is for; '' if it is not one of ours."""
        return name.removeprefix(self._building).partition("-")[0] if name.startswith(self._building) else ""

    def is_ours(self, name: str) -> bool:
        """Whether an image name belongs to this home; podman prefixes names without a registry with localhost/."""
        return name.removeprefix("localhost/").startswith("runyard/") and name.endswith(f":{self._tag}")

    @property
    def _building(self) -> str:
        return f"runyard-building-{self._tag}-"

    @property
    def _tag(self) -> str:
        return _short(self.home)[:12]


def notes_root(root: Path) -> Path:
    return root / "locks" / "images"


def image_notes(root: Path, image_id: str) -> Path:
    """Folder for facts about an image; removed once the engine no longer has the image."""
    return notes_root(root) / image_id.partition(":")[2]


def _short(identity: str) -> str:
    return hashlib.sha256(identity.encode()).hexdigest()[:24]


SALT = "pulled.salt"


@dataclass(frozen=True)
class PrivateImageNames:
    """Names of pulled images that needed a password: a salted hash, so that only a caller with the same password finds
    the image."""

    naming: ImageNames

    def name_of(self, wanted: ImageSpec, credentials: RegistryCredentials) -> str:
        identity = json.dumps([wanted.base, wanted.platform, credentials.username, credentials.password]).encode()
        # Salted, since all users of the engine see the names of images.
        return self.naming.base(hmac.new(home_salt(self.naming), identity, hashlib.sha256).hexdigest())


def home_salt(naming: ImageNames) -> bytes:
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
