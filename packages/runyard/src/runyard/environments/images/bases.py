"""The image that an environment stands on: the engine's own, pulled, or built from a Dockerfile."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runyard.containers.contents import bases_of
from runyard.containers.engine import Engine
from runyard.containers.images import ImageFacts, RegistryCredentials
from runyard.environments.images.brought import BroughtNames
from runyard.environments.images.dockerfiles import DockerfileBuild
from runyard.environments.images.given import GivenBase, is_called, is_ours
from runyard.environments.images.naming import Naming
from runyard.environments.programs import Say
from runyard.environments.provisions import PlaceFiles
from runyard.environments.sources import Sources
from runyard.errors import EnvironmentFailed
from runyard.model.causes import Cause
from runyard.model.images import ImageSpec
from runyard.planning.image import FROM, registry_of

COPIED_FROM = re.compile(r"--from=(?P<name>[^\s,]+)", re.I)


@dataclass(frozen=True)
class Bases:
    engine: Engine
    naming: Naming
    sources: Sources
    registries: Mapping[str, RegistryCredentials]
    place: PlaceFiles | None
    scratch: Path
    key: str
    """Of the environment that it is for."""
    is_fresh: bool
    say: Say

    def bring(self, wanted: ImageSpec, locked: str = "") -> ImageFacts:
        """EnvironmentFailed in the words of the engine or the registry. `locked` tells the image of an earlier build,
        which is taken where the user names an image of a registry."""
        self._check_platform(wanted)
        self._check_names([*filter(None, [wanted.base]), *named_in(wanted.dockerfile)])
        base = self._from_dockerfile(wanted, locked) if wanted.dockerfile else self._given(wanted, locked)
        if base.architecture and base.architecture != self.engine.facts().architecture:
            raise _other_architecture(base.architecture, self.engine.facts().architecture)
        return base

    def brought(self, wanted: ImageSpec) -> tuple[str, ...]:
        """The names that are in the engine because of us and that an environment on this base needs."""
        return BroughtNames(self.engine, self.naming).of([wanted.base, *named_in(wanted.dockerfile)])

    def _given(self, wanted: ImageSpec, locked: str) -> ImageFacts:
        given = GivenBase(
            engine=self.engine,
            naming=self.naming,
            wanted=wanted,
            credentials=self._credentials(wanted.registry or registry_of(wanted.base)),
            is_offline=self.sources.settings.offline,
            is_fresh=self.is_fresh,
            key=self.key,
            say=self.say,
        )
        return given.as_locked(given.bring(), locked)

    def _from_dockerfile(self, wanted: ImageSpec, locked: str) -> ImageFacts:
        names = {name: bool(self._credentials(registry_of(name))) for name in named_in(wanted.dockerfile)}
        with BroughtNames(self.engine, self.naming).bringing(names, self.key):
            for name in names if self.is_fresh else ():
                self._pull_again(name, wanted.platform)
            base = DockerfileBuild(
                self.engine, self.naming, self.sources, self.registries, self.place, self.scratch, self.say
            ).make(wanted)
        if locked not in ("", base.id):
            self.say(f"The Dockerfile is built again: its image is another than the locked one ({locked}).")
        return base

    def _check_names(self, names: Sequence[str]) -> None:
        """Images of ours hold what others brought and built, and an id is a name of anybody's image."""
        brought = BroughtNames(self.engine, self.naming)
        for name in names:
            found = self.engine.images.find(name)
            is_private = brought.is_passing(name) and not self._credentials(registry_of(name))
            if is_ours(name) or (found is not None and (is_private or not is_called(found, name))):
                raise _not_by_that_name(name)

    def _pull_again(self, name: str, platform: str) -> None:
        """An image of this machine's own has no registry to come from."""
        found, credentials = self.engine.images.find(name), self._credentials(registry_of(name))
        if credentials or (found is not None and found.digests):
            self.engine.images.pull(name, self.say, credentials=credentials, platform=platform)

    def _credentials(self, address: str) -> RegistryCredentials | None:
        return self.registries.get(address)

    def _check_platform(self, wanted: ImageSpec) -> None:
        here = self.engine.facts().architecture
        asked = wanted.platform.split("/")[1] if "/" in wanted.platform else ""
        if asked and here and asked != here:
            raise _other_architecture(asked, here)


def named_in(dockerfile: str) -> tuple[str, ...]:
    """The images that a Dockerfile starts or copies from."""
    stages = {found["stage"].lower() for found in FROM.finditer(dockerfile) if found["stage"]}
    copied = (found["name"] for found in COPIED_FROM.finditer(dockerfile))
    others = (name for name in copied if not name.isdigit() and name.lower() not in stages)
    return tuple(dict.fromkeys((*bases_of(dockerfile), *others)))


def _not_by_that_name(name: str) -> EnvironmentFailed:
    return EnvironmentFailed(
        f"There is no image {name!r} that an environment can stand on.",
        hint="Name the image as its registry does, with a login where that wants one; ids, and images that Runyard "
        "made for environments, are not taken.",
        cause=Cause.IMAGE_NOT_FOUND,
        said=name,
    )


def _other_architecture(image: str, here: str) -> EnvironmentFailed:
    return EnvironmentFailed(
        f"The image is made for {image}, and this machine's container engine runs {here}.",
        hint=f"Choose an image for linux/{here}, or one that is made for several, and docker.platform to go with it.",
        cause=Cause.ARCHITECTURE,
        said=f"{image} is not {here}",
    )
