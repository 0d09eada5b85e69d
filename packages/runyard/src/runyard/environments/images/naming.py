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

    def build_container(self, key: str = "") -> str:
        """A name, since labels of a container that becomes an image are those of every container of it. Without a key,
        what all these names begin with."""
        return f"runyard-building-{self._tag}-{key}"

    def is_ours(self, name: str) -> bool:
        """podman puts localhost/ in front of names that have no registry."""
        return name.removeprefix("localhost/").startswith("runyard/") and name.endswith(f":{self._tag}")

    @property
    def _tag(self) -> str:
        return _short(self.home)[:12]


def _short(identity: str) -> str:
    return hashlib.sha256(identity.encode()).hexdigest()[:24]
