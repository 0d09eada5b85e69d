from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from runyard.core.durable_files import try_exclusive_lock
from runyard.core.errors import EnvironmentFailed
from runyard.core.ports.environments import BuiltEnvironment, EnvironmentLock
from runyard.core.records.environments import VIRTUAL_ENVIRONMENT, PackageSettings
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.environments import cache
from runyard.environments.images.built_images import BuiltImages, ImageDetails, ImageFolder, local_engine
from runyard.environments.package_sources import BuildSettings, WriteFiles
from runyard.environments.programs import LogLine
from runyard.environments.uv_environments import PrebuiltEnvironment, UvEnvironments

if TYPE_CHECKING:
    from runyard.environments.images.environments import ImageEnvironments


class LocalEnvironments:
    """Environments of this machine below one folder: virtual environments built by uv or conda, and container images.

    Implements `EnvironmentBuilder`; safe across processes. `variables` are the submitter's. `settings` is called once
    for each build, never to find a finished environment. `write_files` writes the files of a build context.
    """

    def __init__(
        self,
        root: Path,
        variables: Mapping[str, str],
        settings: Callable[[], BuildSettings] = BuildSettings,
        write_files: WriteFiles | None = None,
    ) -> None:
        self._root, self._variables, self._load_settings, self._write_files = root, variables, settings, write_files
        self._loaded = BuildSettings()
        self._virtual = UvEnvironments(root, variables, self._settings, lambda: self._loaded.addresses)
        self._images = BuiltImages(root, variables)

    def find(self, spec: EnvironmentSpec) -> BuiltEnvironment | None:
        """Find a finished environment: on disk, and for an image in the container engine."""
        return (self._virtual if spec.image is None else self._images).find(spec)

    def ensure(
        self, spec: EnvironmentSpec, log: LogLine, prebuilt: PrebuiltEnvironment | None = None
    ) -> BuiltEnvironment:
        """See `EnvironmentBuilder`; `prebuilt` is what another machine has built of the same spec."""
        found = self.find(spec)
        if found is not None:
            return found
        make = self._virtual.ensure if spec.image is None else self._ensure_in_image
        built = make(spec, log, prebuilt)
        self._trim(built.key)
        return built

    def lock_of(self, built: BuiltEnvironment) -> EnvironmentLock | None:
        """The lock and wheels for another machine; None for an interpreter of the user's own."""
        return self._virtual.lock_of(built)

    def image_of(self, built: BuiltEnvironment) -> ImageDetails | None:
        """None for a virtual environment of this machine."""
        return ImageFolder(self._root, built.key).details() if built.image else None

    @contextmanager
    def hold(self, built: BuiltEnvironment) -> Iterator[int | None]:
        """Keep an environment from being pruned. Raises EnvironmentFailed if it was pruned already.

        Yields the descriptor of the lock, if there is one: a child process that inherits it holds the environment too.
        """
        with self._virtual.hold(built) as descriptor:
            yield descriptor

    def _settings(self) -> PackageSettings:
        self._loaded = self._load_settings()
        return self._loaded.settings

    def _ensure_in_image(
        self, spec: EnvironmentSpec, log: LogLine, prebuilt: PrebuiltEnvironment | None
    ) -> BuiltEnvironment:
        try:
            local_engine(self._variables)
        except EnvironmentFailed as no_engine:
            return self._without_engine(spec, log, prebuilt, no_engine)
        builder = image_builder(self._root, self._variables, self._load_settings, self._write_files)
        return builder.ensure(spec, log, prebuilt)

    def _without_engine(
        self, spec: EnvironmentSpec, log: LogLine, prebuilt: PrebuiltEnvironment | None, no_engine: EnvironmentFailed
    ) -> BuiltEnvironment:
        """Build the packages of an image into a virtual environment, if the workspace's settings allow it."""
        if self._load_settings().settings.without_engine != VIRTUAL_ENVIRONMENT or spec.user_managed:
            raise no_engine
        assert spec.image
        warning = (
            f"There is no container engine on this machine, so the run is not in image "
            f"{spec.image.base or 'of the Dockerfile'}: its packages are in a virtual environment."
        )
        log(warning)
        built = self._virtual.ensure(replace(spec, image=None), log, prebuilt)
        return replace(built, warnings=(*built.warnings, warning))

    def _trim(self, new: str) -> None:
        """Keep the cache below its size limit."""
        if cache.trim(self._root, cache.size_limit(self._root), spared={new}):
            image_builder(self._root, self._variables).sweep()


def image_builder(
    root: Path,
    variables: Mapping[str, str],
    settings: Callable[[], BuildSettings] = BuildSettings,
    write_files: WriteFiles | None = None,
) -> "ImageEnvironments":
    # Agents and supervisors only find finished environments; importing the build code would double their start time.
    from runyard.environments.images.environments import ImageEnvironments

    return ImageEnvironments(root, variables, settings, write_files)


def discard_environment(root: Path, key: str) -> bool:
    """Remove the environment, so that the next run builds it again, an image from its current base. Returns False if it
    is in use or being built."""
    folder = ImageFolder(root, key)
    with try_exclusive_lock(folder.builder_lock) as not_building, try_exclusive_lock(folder.use_lock) as unused:
        if not (not_building and unused):
            return False
        if folder.details() is not None:
            folder.fresh.touch()
        folder.lock.unlink(missing_ok=True)
        folder.remove()
        return True


def prune_environments(
    root: Path,
    *,
    keep: int = 0,
    older_than: timedelta = timedelta(0),
    now: datetime | None = None,
    wanted: Collection[str] = (),
) -> list[str]:
    """Call `cache.prune` and remove the images of the removed environments."""
    removed = cache.prune(root, keep=keep, older_than=older_than, now=now, wanted=wanted)
    if any((root / "locks").glob("images*")):
        image_builder(root, {}).sweep()
    return removed
