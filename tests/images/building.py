"""A home with image environments of its own, whose packages come from a folder of wheels."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from runyard.core.ports.environments import BuiltEnvironment
from runyard.core.records.launch_plan import EnvironmentSpec, ImageSpec
from runyard.environments.builder import LocalEnvironments
from runyard.environments.containers.containers import ContainerSpec
from runyard.environments.containers.engine import ContainerEngine
from runyard.environments.images.names import ImageNames
from runyard.environments.package_sources import BuildSettings


@dataclass
class ImageHome:
    engine: ContainerEngine
    root: Path
    variables: Mapping[str, str]
    provisions: BuildSettings = field(default_factory=BuildSettings)
    said: list[str] = field(default_factory=list)

    @property
    def environments(self) -> LocalEnvironments:
        return LocalEnvironments(self.root, self.variables, lambda: self.provisions, self._place)

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
        naming = ImageNames(self.root)
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
        return {name for entry in entries for name in entry.names if ImageNames(self.root).is_ours(name)}

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
