"""A home with image environments of its own, whose packages come from a folder of wheels."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from runyard.containers.creating import ContainerSpec
from runyard.containers.engine import Engine
from runyard.environments.images.naming import Naming
from runyard.environments.making import Environments
from runyard.environments.provisions import Provisions
from runyard.model.images import ImageSpec
from runyard.model.plan import EnvironmentSpec
from runyard.ports.environments import BuiltEnvironment


@dataclass
class ImageHome:
    engine: Engine
    root: Path
    variables: Mapping[str, str]
    provisions: Provisions = field(default_factory=Provisions)
    said: list[str] = field(default_factory=list)

    @property
    def environments(self) -> Environments:
        return Environments(self.root, self.variables, lambda: self.provisions, self._place)

    def ensure(self, spec: EnvironmentSpec) -> BuiltEnvironment:
        return self.environments.ensure(spec, self.said.append)

    def has_said(self, words: str) -> bool:
        return any(words in line for line in self.said)

    def lines(self, built: BuiltEnvironment, *command: str, **more: object) -> list[str]:
        """What a program prints in a container of the image."""
        heard: list[str] = []
        spec = ContainerSpec(built.image, command, **more)
        ended = self.engine.containers.run(spec, heard.append).exit
        assert ended.status == 0, heard
        return heard

    def python(self, built: BuiltEnvironment, code: str, **more: object) -> list[str]:
        return self.lines(built, str(built.python), "-c", code, **more)

    def build_containers(self) -> int:
        naming = Naming(self.root)
        entries = self.engine.containers.with_labels({})
        return sum(bool(naming.key_of_build_container(entry.name)) for entry in entries)

    def in_engine(self) -> tuple[set[str], set[str]]:
        """Every container and every image, named or not, whoever it belongs to. Layers of Dockerfile steps are the
        engine's own cache."""
        images = self.engine.images.with_labels({})
        names = {name for entry in images for name in entry.names or (entry.id,)}
        return {entry.id for entry in self.engine.containers.with_labels({})}, names

    def images(self) -> set[str]:
        """The names of all images that this home has in the engine."""
        entries = self.engine.images.with_labels({})
        return {name for entry in entries for name in entry.names if Naming(self.root).is_ours(name)}

    def _place(self, entries: object, folder: Path) -> None:
        for entry in entries:  # type: ignore[attr-defined]
            path = folder / entry.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"content of {entry.path}\n")
            os.chmod(path, entry.mode)


def of_image(base: str, *requirements: str, python: str = "3.11", **more: object) -> EnvironmentSpec:
    return EnvironmentSpec(python=python, requirements=requirements, image=ImageSpec(base=base), **more)


def of_dockerfile(text: str, *requirements: str, python: str = "3.11", **more: object) -> EnvironmentSpec:
    return EnvironmentSpec(python=python, requirements=requirements, image=ImageSpec(dockerfile=text, **more))
