"""What Runyard's own images and build containers are called in an engine, so that they are found again."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

HOME, ENVIRONMENT, BASE = "runyard.home", "runyard.environment", "runyard.base"

USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""What engines give the containers of an image that says nothing of PATH."""


@dataclass(frozen=True)
class Naming:
    """Of the environments below one folder. Several homes may share an engine, and none touches another's."""

    root: Path

    @property
    def home(self) -> str:
        return str(self.root.parent.resolve())

    def environment(self, key: str) -> str:
        return f"runyard/azureml_{key}:{self._tag}"

    def base(self, identity: str) -> str:
        """Of an image that was pulled or built for environments to stand on."""
        return f"runyard/base_{_short(identity)}:{self._tag}"

    def python(self, identity: str) -> str:
        """Of a base with an interpreter of the machine in it."""
        return f"runyard/python_{_short(identity)}:{self._tag}"

    def build_container(self, key: str, step: str) -> str:
        """A name, since labels of a container that becomes an image are those of every container of it."""
        return f"{self._building}{key}-{step}"

    def key_of_build_container(self, name: str) -> str:
        """'' for a container that is none of ours."""
        return name.removeprefix(self._building).partition("-")[0] if name.startswith(self._building) else ""

    def is_ours(self, name: str) -> bool:
        """podman puts localhost/ in front of names that have no registry."""
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
    """A folder for what is known of an image, for as long as the engine has it."""
    return all_notes(root) / image_id.partition(":")[2]


def _short(identity: str) -> str:
    return hashlib.sha256(identity.encode()).hexdigest()[:24]
