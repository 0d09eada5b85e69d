"""Base images of environments: found in the engine, pulled, or built from a Dockerfile."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runyard.containers.contents import bases_of
from runyard.containers.engine import Engine
from runyard.containers.records import ImageFacts
from runyard.containers.registries import RegistryCredentials
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
    write_files: PlaceFiles | None
    scratch: Path
    key: str
    """Key of the environment that the image is for."""
    is_fresh: bool
    log: Say

    def obtain(self, wanted: ImageSpec, locked: str = "") -> ImageFacts:
        """Find, pull or build the base image. Raises EnvironmentFailed with the message of the engine or registry.

        `locked` is the digest of an earlier build; it is used again where the user names an image of a registry.
        """
        self._check_platform(wanted)
        self._check_names([*filter(None, [wanted.base]), *named_in(wanted.dockerfile)])
        base = self._from_dockerfile(wanted, locked) if wanted.dockerfile else self._given(wanted, locked)
        if base.architecture and base.architecture != self.engine.facts().architecture:
            raise _other_architecture(base.architecture, self.engine.facts().architecture)
        return base

    def pulled_names(self, wanted: ImageSpec) -> tuple[str, ...]:
        """Names of images that our builds pulled and that an environment on this base needs."""
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
            log=self.log,
        )
        return given.as_locked(given.obtain(), locked)

    def _from_dockerfile(self, wanted: ImageSpec, locked: str) -> ImageFacts:
        names = {name: bool(self._credentials(registry_of(name))) for name in named_in(wanted.dockerfile)}
        with BroughtNames(self.engine, self.naming).record_pull(names, self.key):
            for name in names if self.is_fresh else ():
                self._pull_again(name, wanted.platform)
            base = DockerfileBuild(
                self.engine, self.naming, self.sources, self.registries, self.write_files, self.scratch, self.log
            ).make(wanted)
        if locked not in ("", base.id):
            self.log(f"The Dockerfile is built again: its image is another than the locked one ({locked}).")
        return base

    def _check_names(self, names: Sequence[str]) -> None:
        """Refuse image ids, our own images, and private images for a caller without credentials.

        Otherwise a user could build on an image that only another user may read.
        """
        pulled = BroughtNames(self.engine, self.naming)
        for name in names:
            found = self.engine.images.find(name)
            is_private = pulled.is_passing(name) and not self._credentials(registry_of(name))
            if is_ours(name) or (found is not None and (is_private or not is_called(found, name))):
                raise _not_by_that_name(name)

    def _pull_again(self, name: str, platform: str) -> None:
        """Pull an image of a registry again; an image that was built locally has none."""
        found, credentials = self.engine.images.find(name), self._credentials(registry_of(name))
        if credentials or (found is not None and found.digests):
            self.engine.images.pull(name, self.log, credentials=credentials, platform=platform)

    def _credentials(self, address: str) -> RegistryCredentials | None:
        return self.registries.get(address)

    def _check_platform(self, wanted: ImageSpec) -> None:
        here = self.engine.facts().architecture
        asked = wanted.platform.split("/")[1] if "/" in wanted.platform else ""
        if asked and here and asked != here:
            raise _other_architecture(asked, here)


def named_in(dockerfile: str) -> tuple[str, ...]:
    """Names of the images in FROM lines and --from options of a Dockerfile."""
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
