"""Base images of environments: found in the engine, pulled, or built from a Dockerfile."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from runyard.core.durable_files import replace_file
from runyard.core.errors import EnvironmentFailed
from runyard.core.records.environments import FailureCause
from runyard.core.records.launch_plan import ImageSpec
from runyard.environments.build import NOT_AS_LOCKED
from runyard.environments.containers.build_context import base_images
from runyard.environments.containers.engine import ContainerEngine
from runyard.environments.containers.records import ImageFacts
from runyard.environments.containers.registries import RegistryCredentials, split_tag
from runyard.environments.images.cleanup import PulledImages
from runyard.environments.images.dockerfile_build import DockerfileBuild
from runyard.environments.images.names import ImageNames, PrivateImageNames, image_notes
from runyard.environments.package_sources import PackageSources, WriteFiles
from runyard.environments.planning.image import FROM, registry_of
from runyard.environments.programs import LogLine

COPIED_FROM = re.compile(r"--from=(?P<name>[^\s,]+)", re.I)


@dataclass(frozen=True)
class BaseImages:
    engine: ContainerEngine
    naming: ImageNames
    sources: PackageSources
    registries: Mapping[str, RegistryCredentials]
    write_files: WriteFiles | None
    scratch: Path
    key: str
    """Key of the environment that the image is for."""
    is_fresh: bool
    log: LogLine

    def obtain(self, wanted: ImageSpec, locked: str = "") -> ImageFacts:
        """Find, pull or build the base image. Raises EnvironmentFailed with the message of the engine or registry.

        `locked` is the digest of an earlier build; it is used again where the user names an image of a registry.
        """
        self._check_platform(wanted)
        self._check_names([*filter(None, [wanted.base]), *images_in_dockerfile(wanted.dockerfile)])
        base = self._from_dockerfile(wanted, locked) if wanted.dockerfile else self._given(wanted, locked)
        if base.architecture and base.architecture != self.engine.facts().architecture:
            raise _other_architecture(base.architecture, self.engine.facts().architecture)
        return base

    def pulled_names(self, wanted: ImageSpec) -> tuple[str, ...]:
        """Names of images that our builds pulled and that an environment on this base needs."""
        return PulledImages(self.engine, self.naming).of([wanted.base, *images_in_dockerfile(wanted.dockerfile)])

    def _given(self, wanted: ImageSpec, locked: str) -> ImageFacts:
        given = NamedBaseImage(
            engine=self.engine,
            naming=self.naming,
            wanted=wanted,
            credentials=self._credentials(wanted.registry or registry_of(wanted.base)),
            is_offline=self.sources.settings.offline,
            is_fresh=self.is_fresh,
            key=self.key,
            log=self.log,
        )
        return given.at_digest(given.obtain(), locked)

    def _from_dockerfile(self, wanted: ImageSpec, locked: str) -> ImageFacts:
        names = {name: bool(self._credentials(registry_of(name))) for name in images_in_dockerfile(wanted.dockerfile)}
        with PulledImages(self.engine, self.naming).record_pull(names, self.key):
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
        pulled = PulledImages(self.engine, self.naming)
        for name in names:
            found = self.engine.images.find(name)
            is_private = pulled.is_temporary(name) and not self._credentials(registry_of(name))
            if is_runyard_name(name) or (found is not None and (is_private or not has_name(found, name))):
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


def images_in_dockerfile(dockerfile: str) -> tuple[str, ...]:
    """Names of the images in FROM lines and --from options of a Dockerfile."""
    stages = {found["stage"].lower() for found in FROM.finditer(dockerfile) if found["stage"]}
    copied = (found["name"] for found in COPIED_FROM.finditer(dockerfile))
    others = (name for name in copied if not name.isdigit() and name.lower() not in stages)
    return tuple(dict.fromkeys((*base_images(dockerfile), *others)))


def _not_by_that_name(name: str) -> EnvironmentFailed:
    return EnvironmentFailed(
        f"There is no image {name!r} that an environment can stand on.",
        hint="Name the image as its registry does, with a login where that wants one; ids, and images that Runyard "
        "made for environments, are not taken.",
        cause=FailureCause.IMAGE_NOT_FOUND,
        said=name,
    )


def _other_architecture(image: str, here: str) -> EnvironmentFailed:
    return EnvironmentFailed(
        f"The image is made for {image}, and this machine's container engine runs {here}.",
        hint=f"Choose an image for linux/{here}, or one that is made for several, and docker.platform to go with it.",
        cause=FailureCause.ARCHITECTURE,
        said=f"{image} is not {here}",
    )


DIGEST = "digest"


@dataclass(frozen=True)
class NamedBaseImage:
    """A base image that the user names, from the engine or its registry."""

    engine: ContainerEngine
    naming: ImageNames
    wanted: ImageSpec
    credentials: RegistryCredentials | None
    is_offline: bool
    is_fresh: bool
    """Pull the image again even if it is in the engine, since its tag may have moved."""
    key: str
    log: LogLine

    def obtain(self) -> ImageFacts:
        found = self._here()
        if found is not None and not (self.is_fresh and self._came_from_registry(found)):
            self.log(f"Image {self.wanted.base} is here: {found.id}.")
            return found
        if self.is_offline:
            raise EnvironmentFailed(
                f"The workspace is offline, and image {self.wanted.base!r} is not on this machine.",
                hint=f"Bring it once (`docker pull {self.wanted.base}` or `docker load`), or switch offline off.",
                cause=FailureCause.OFFLINE,
                said=f"no such image: {self.wanted.base}",
            )
        return self._pulled()

    def at_digest(self, found: ImageFacts, digest: str) -> ImageFacts:
        """The image with the locked digest; `found` if that is it, else the tag has moved and the digest is pulled."""
        if digest in ("", found.id, image_digest(self.naming, found)):
            return found
        self.log(f"Image {self.wanted.base} is another now than the locked one; {digest} is taken.")
        exact = replace(self, wanted=replace(self.wanted, base=f"{split_tag(self.wanted.base)[0]}@{digest}"))
        try:
            return exact.obtain()
        except EnvironmentFailed as failure:
            raise EnvironmentFailed(failure.problem, hint=NOT_AS_LOCKED, **failure.facts) from failure

    def _here(self) -> ImageFacts | None:
        if self.credentials:
            return self.engine.images.find(self._private_name)
        return self.engine.images.find(self.wanted.base)

    def _came_from_registry(self, found: ImageFacts) -> bool:
        return bool(self.credentials or found.digests)

    def _pulled(self) -> ImageFacts:
        who = f" as {self.credentials.username}" if self.credentials else ""
        self.log(f"Pulling {self.wanted.base}{who}.")
        names = PulledImages(self.engine, self.naming)
        with names.record_pull({self.wanted.base: bool(self.credentials)}, self.key):
            pulled = self.engine.images.pull(
                self.wanted.base, self.log, credentials=self.credentials, platform=self.wanted.platform
            )
            if self.credentials:
                self.engine.images.tag(pulled.id, self._private_name)
        # The engine drops the registry's digest together with the name.
        notes = image_notes(self.naming.root, pulled.id)
        notes.mkdir(parents=True, exist_ok=True)
        replace_file(notes / DIGEST, image_digest(self.naming, pulled).encode())
        return self.engine.images.find(pulled.id) or pulled

    @property
    def _private_name(self) -> str:
        assert self.credentials
        return PrivateImageNames(self.naming).name_of(self.wanted, self.credentials)


def image_digest(naming: ImageNames, image: ImageFacts) -> str:
    """Digest in the registry, which identifies the image on other machines; its local id if it was built here."""
    if image.digests:
        return image.digests[0].partition("@")[2]
    try:
        return (image_notes(naming.root, image.id) / DIGEST).read_text(encoding="utf-8")
    except OSError:
        return image.id


def has_name(image: ImageFacts, reference: str) -> bool:
    """Whether the reference is a name of the image and not its id, which would open images of other users."""
    return _canonical_name(reference) in {_canonical_name(name) for name in (*image.names, *image.digests)}


def is_runyard_name(reference: str) -> bool:
    """Whether it is in our own namespace of image names."""
    return reference.removeprefix("localhost/").startswith("runyard/")


def _canonical_name(reference: str) -> str:
    """Canonical image name: tag filled in, default registry removed."""
    name, tag = split_tag(reference)
    for usual in ("docker.io/", "library/", "localhost/"):
        name = name.removeprefix(usual)
    return f"{name}:{tag}"
