from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from runyard.environments import cache
from runyard.environments.durable import locked_if_free
from runyard.environments.images.finding import FoundImages, engine_here
from runyard.environments.images.record import ImageDetails, ImageFolder
from runyard.environments.programs import Say
from runyard.environments.provisions import PlaceFiles, Provisions
from runyard.environments.uv import MadeElsewhere, UvEnvironments
from runyard.errors import EnvironmentFailed
from runyard.model.package_settings import VIRTUAL_ENVIRONMENT, PackageSettings
from runyard.model.plan import EnvironmentSpec
from runyard.ports.environments import BuiltEnvironment, EnvironmentLock

if TYPE_CHECKING:
    from runyard.environments.images.environments import ImageEnvironments


class Environments:
    """The environments below one folder, of every kind: virtual environments of this machine, made by uv or by conda,
    and container images. An `EnvironmentBuilder`; safe to use from any number of processes.

    `variables` are the submitter's. `provisions` is asked once for each build, and never to find what is built.
    `place` brings the files of a build context.
    """

    def __init__(
        self,
        root: Path,
        variables: Mapping[str, str],
        provisions: Callable[[], Provisions] = Provisions,
        place: PlaceFiles | None = None,
    ) -> None:
        self._root, self._variables, self._provisions, self._place = root, variables, provisions, place
        self._asked = Provisions()
        self._virtual = UvEnvironments(root, variables, self._settings, lambda: self._asked.addresses)
        self._images = FoundImages(root, variables)

    def find(self, spec: EnvironmentSpec) -> BuiltEnvironment | None:
        """From the disk alone; of an image, its engine is asked whether it is still there."""
        return (self._virtual if spec.image is None else self._images).find(spec)

    def ensure(self, spec: EnvironmentSpec, say: Say, elsewhere: MadeElsewhere | None = None) -> BuiltEnvironment:
        """As the port has it; where another machine has made the environment already, the same is made from that."""
        found = self.find(spec)
        if found is not None:
            return found
        make = self._virtual.ensure if spec.image is None else self._ensure_in_image
        built = make(spec, say, elsewhere)
        self._trim(built.key)
        return built

    def lock_of(self, built: BuiltEnvironment) -> EnvironmentLock | None:
        """What another machine can make the same environment from; None for an interpreter of the user's own."""
        return self._virtual.lock_of(built)

    def image_of(self, built: BuiltEnvironment) -> ImageDetails | None:
        """None for a virtual environment of this machine."""
        return ImageFolder(self._root, built.key).details() if built.image else None

    @contextmanager
    def hold(self, built: BuiltEnvironment) -> Iterator[int | None]:
        """Keep an environment from being pruned. EnvironmentFailed if that has happened already.

        Yields the descriptor that holds it, if it needs one: whoever inherits that holds the environment too.
        """
        with self._virtual.hold(built) as descriptor:
            yield descriptor

    def _settings(self) -> PackageSettings:
        self._asked = self._provisions()
        return self._asked.settings

    def _ensure_in_image(self, spec: EnvironmentSpec, say: Say, elsewhere: MadeElsewhere | None) -> BuiltEnvironment:
        try:
            engine_here(self._variables)
        except EnvironmentFailed as no_engine:
            return self._without_engine(spec, say, elsewhere, no_engine)
        builder = image_builder(self._root, self._variables, self._provisions, self._place)
        return builder.ensure(spec, say, elsewhere)

    def _without_engine(
        self, spec: EnvironmentSpec, say: Say, elsewhere: MadeElsewhere | None, no_engine: EnvironmentFailed
    ) -> BuiltEnvironment:
        """The same packages in a virtual environment, where the workspace allows it."""
        if self._provisions().settings.without_engine != VIRTUAL_ENVIRONMENT or spec.user_managed:
            raise no_engine
        assert spec.image
        warning = (
            f"There is no container engine on this machine, so the run is not in image "
            f"{spec.image.base or 'of the Dockerfile'}: its packages are in a virtual environment."
        )
        say(warning)
        built = self._virtual.ensure(replace(spec, image=None), say, elsewhere)
        return replace(built, warnings=(*built.warnings, warning))

    def _trim(self, new: str) -> None:
        """Keep the cache within its bounds."""
        if cache.trim(self._root, cache.size_limit(self._root), spared={new}):
            image_builder(self._root, self._variables).sweep()


def image_builder(
    root: Path,
    variables: Mapping[str, str],
    provisions: Callable[[], Provisions] = Provisions,
    place: PlaceFiles | None = None,
) -> "ImageEnvironments":
    # Agents and supervisors only find what is built: what building takes would double their start.
    from runyard.environments.images.environments import ImageEnvironments

    return ImageEnvironments(root, variables, provisions, place)


def forget(root: Path, key: str) -> bool:
    """Have the environment of that key built anew, in an image from what its registry has then. False where it is in
    use or being built, and stays."""
    folder = ImageFolder(root, key)
    with locked_if_free(folder.builder_lock) as unbuilt, locked_if_free(folder.use_lock) as unused:
        if not (unbuilt and unused):
            return False
        if folder.details() is not None:
            folder.fresh.touch()
        folder.lock.unlink(missing_ok=True)
        folder.remove()
        return True


def prune(
    root: Path,
    *,
    keep: int = 0,
    older_than: timedelta = timedelta(0),
    now: datetime | None = None,
    wanted: Collection[str] = (),
) -> list[str]:
    """As `cache.prune`, and the images of what is removed go too."""
    removed = cache.prune(root, keep=keep, older_than=older_than, now=now, wanted=wanted)
    if any((root / "locks").glob("images*")):
        image_builder(root, {}).sweep()
    return removed
