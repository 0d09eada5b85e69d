"""The image that an environment stands on: the engine's own, pulled, or built from a Dockerfile."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from runyard.containers.contents import build_context
from runyard.containers.engine import Engine
from runyard.containers.images import ImageFacts, RegistryCredentials
from runyard.containers.registries import registry_of
from runyard.environments.images.naming import HOME, Naming
from runyard.environments.images.pulled import PulledBases
from runyard.environments.programs import Say
from runyard.environments.provisions import PlaceFiles
from runyard.environments.sources import Sources
from runyard.errors import EnvironmentFailed
from runyard.model.causes import Cause
from runyard.model.images import ImageSpec


@dataclass(frozen=True)
class Bases:
    engine: Engine
    naming: Naming
    sources: Sources
    registries: Mapping[str, RegistryCredentials]
    place: PlaceFiles | None
    scratch: Path
    say: Say

    def bring(self, wanted: ImageSpec) -> ImageFacts:
        """EnvironmentFailed in the words of the engine or the registry."""
        self._check_platform(wanted)
        base = self._built(wanted) if wanted.dockerfile else self._given(wanted)
        if base.architecture and base.architecture != self.engine.facts().architecture:
            raise _other_architecture(base.architecture, self.engine.facts().architecture)
        return base

    def _given(self, wanted: ImageSpec) -> ImageFacts:
        credentials = self._credentials(wanted)
        pulled = PulledBases(self.engine, self.naming)
        name = pulled.name_of(wanted, credentials)
        found = self.engine.images.find(name)
        if found is None and not credentials:
            found = self.engine.images.find(wanted.base)
        if found is not None:
            self.say(f"Image {wanted.base} is here: {found.id}.")
            return found
        if self.sources.settings.offline:
            raise EnvironmentFailed(
                f"The workspace is offline, and image {wanted.base!r} is not on this machine.",
                hint=f"Bring it once (`docker pull {wanted.base}` or `docker load`), or switch offline off.",
                cause=Cause.OFFLINE,
                said=f"no such image: {wanted.base}",
            )
        self.say(f"Pulling {wanted.base}{f' as {credentials.username}' if credentials else ''}.")
        return pulled.pull(wanted, credentials, self.say)

    def _credentials(self, wanted: ImageSpec) -> RegistryCredentials | None:
        address = wanted.registry or registry_of(wanted.base)
        return self.registries.get(address) or self.registries.get(wanted.registry)

    def _built(self, wanted: ImageSpec) -> ImageFacts:
        """The engine's own cache of layers makes a repeated build cheap."""
        self.say("Building the Dockerfile:")
        for line in wanted.dockerfile.splitlines():
            self.say(f"  {line}")
        for address in self.sources.withheld:
            self.say(f"The Dockerfile's steps are not told of {address}: the image's history would keep its password.")
        name = self.naming.base(json.dumps(asdict(wanted), sort_keys=True))
        folder = self.scratch / "context"
        try:
            files = self._context(wanted, folder)
            context = build_context(wanted.dockerfile, files)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        with context.archive:
            return self.engine.images.build(
                context,
                self.say,
                name=name,
                platform=wanted.platform,
                labels={HOME: self.naming.home},
                build_args=self.sources.build_args(),
                credentials=self.registries,
                is_offline=self.sources.settings.offline,
            )

    def _context(self, wanted: ImageSpec, folder: Path) -> list[tuple[str, Path, int]]:
        if not wanted.context:
            return []
        if self.place is None:
            raise EnvironmentFailed(
                "The files of the build context cannot be had here.",
                hint="Submit a run of this environment, or build it through the service.",
                cause=Cause.DOCKERFILE_FAILED,
                said="no build context",
            )
        self.place(wanted.context, folder)
        return [(entry.path, folder / entry.path, entry.mode) for entry in wanted.context]

    def _check_platform(self, wanted: ImageSpec) -> None:
        here = self.engine.facts().architecture
        asked = wanted.platform.split("/")[1] if "/" in wanted.platform else ""
        if asked and here and asked != here:
            raise _other_architecture(asked, here)


def digest_of(image: ImageFacts) -> str:
    """What tells the same image on another machine, where it came from a registry; else its id here."""
    return image.digests[0].partition("@")[2] if image.digests else image.id


def _other_architecture(image: str, here: str) -> EnvironmentFailed:
    return EnvironmentFailed(
        f"The image is made for {image}, and this machine's container engine runs {here}.",
        hint=f"Choose an image for linux/{here}, or one that is made for several, and docker.platform to go with it.",
        cause=Cause.ARCHITECTURE,
        said=f"{image} is not {here}",
    )
