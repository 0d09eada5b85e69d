import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from runyard.environments.durable import write_beside
from runyard.environments.folder import EnvironmentFolder, Facts
from runyard.environments.lockfile import Lock
from runyard.ports.environments import BuiltEnvironment


@dataclass(frozen=True)
class ImageDetails:
    """Result of `get_image_details`, and the stored record of an image environment."""

    name: str
    id: str
    registry: str
    dockerfile: str
    """An equivalent Dockerfile, for people to read."""
    python: str
    """Path of the environment's interpreter in the image."""
    names: tuple[str, ...] = ()
    """Names of its own image and of our images below it."""
    brought: tuple[str, ...] = ()
    """Names of base images that our builds pulled for it."""
    bytes: int = 0
    """Disk space that it added to the engine."""


class ImageFolder(EnvironmentFolder):
    """The folder of one image environment: its record; the image itself is in the engine."""

    @property
    def fresh(self) -> Path:
        """Marker file: the next build pulls the base image again."""
        return self.lock.with_suffix(".fresh")

    def details(self) -> ImageDetails | None:
        """The record; None if there is no finished environment, or it is not an image."""
        facts = self.facts()
        if not facts or not facts.image:
            return None
        lists = {name: tuple(facts.image.get(name, ())) for name in ("names", "brought")}
        return ImageDetails(**{**facts.image, **lists})

    def recorded(self) -> BuiltEnvironment | None:
        """The finished environment; does not ask whether the engine still has its image."""
        facts = self.facts()
        return self._recorded(facts) if facts and facts.image else None

    def mark_used(self) -> None:
        os.utime(self.ready)

    def finish_image(self, lock: Lock, details: ImageDetails, path_variables: Mapping[str, str]) -> BuiltEnvironment:
        """Mark the build complete; `find` returns it afterwards."""
        self.path.mkdir(parents=True, exist_ok=True)
        facts = Facts(lock.text(), lock.python, 0, path_variables=dict(path_variables), image=asdict(details))
        write_beside(self.ready, json.dumps(asdict(facts)).encode(), durable=True)
        return self._recorded(facts)

    def _recorded(self, facts: Facts) -> BuiltEnvironment:
        python, image = Path(facts.image["python"]), str(facts.image["id"])
        return BuiltEnvironment(self.key, python, facts.whole_lock, facts.path_variables, image)
