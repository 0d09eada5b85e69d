import hashlib
from dataclasses import dataclass
from pathlib import Path

HOME, ENVIRONMENT, BASE = "runyard.home", "runyard.environment", "runyard.base"

USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""PATH in containers of an image that does not set it."""


@dataclass(frozen=True)
class Naming:
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


def all_notes(root: Path) -> Path:
    return root / "locks" / "images"


def notes_of(root: Path, image_id: str) -> Path:
    """Folder for facts about an image; removed once the engine no longer has the image."""
    return all_notes(root) / image_id.partition(":")[2]


def _short(identity: str) -> str:
    return hashlib.sha256(identity.encode()).hexdigest()[:24]
