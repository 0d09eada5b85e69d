"""What is written down of a finished image environment."""

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
    """What `get_image_details` tells."""

    name: str
    id: str
    registry: str
    dockerfile: str
    """A Dockerfile that comes to the same, for a person to read."""
    python: str
    """The environment's interpreter in it."""
    names: tuple[str, ...] = ()
    """All images of ours that it stands on, its own among them."""
    brought: tuple[str, ...] = ()
    """Names of other images that are in the engine for it, and for others like it."""
    bytes: int = 0
    """What it added to what the engine had."""


class ImageFolder(EnvironmentFolder):
    """One image environment's place on disk: a few facts; all else is in the engine."""

    @property
    def fresh(self) -> Path:
        """Is there where the next build is to take the base as its registry has it then."""
        return self.lock.with_suffix(".fresh")

    def details(self) -> ImageDetails | None:
        """None where there is no finished environment, or one of another kind."""
        facts = self.facts()
        if not facts or not facts.image:
            return None
        lists = {name: tuple(facts.image.get(name, ())) for name in ("names", "brought")}
        return ImageDetails(**{**facts.image, **lists})

    def recorded(self) -> BuiltEnvironment | None:
        """The finished environment, whether or not the engine still has its image."""
        facts = self.facts()
        return self._recorded(facts) if facts and facts.image else None

    def mark_used(self) -> None:
        os.utime(self.ready)

    def finish_image(self, lock: Lock, details: ImageDetails, path_variables: Mapping[str, str]) -> BuiltEnvironment:
        """It can be found from now on."""
        self.path.mkdir(parents=True, exist_ok=True)
        facts = Facts(lock.text(), lock.python, 0, path_variables=dict(path_variables), image=asdict(details))
        write_beside(self.ready, json.dumps(asdict(facts)).encode(), durable=True)
        return self._recorded(facts)

    def _recorded(self, facts: Facts) -> BuiltEnvironment:
        python, image = Path(facts.image["python"]), str(facts.image["id"])
        return BuiltEnvironment(self.key, python, facts.whole_lock, facts.path_variables, image)
