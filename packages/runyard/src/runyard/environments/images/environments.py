from collections.abc import Callable, Mapping
from pathlib import Path

from runyard.containers.engine import Engine
from runyard.environments.compiled import never
from runyard.environments.conda.choosing import require_twins
from runyard.environments.durable import shared
from runyard.environments.folder import EnvironmentFolder
from runyard.environments.images.bases import Bases
from runyard.environments.images.build import ImageBuild
from runyard.environments.images.finding import FoundImages, engine_here
from runyard.environments.images.naming import Naming
from runyard.environments.images.record import ImageFolder
from runyard.environments.images.sweeping import Sweeping, builders_lock
from runyard.environments.lockfile import Lock
from runyard.environments.programs import Say
from runyard.environments.provisions import PlaceFiles, Provisions
from runyard.environments.sources import Sources
from runyard.environments.uv import MadeElsewhere
from runyard.errors import EnvironmentFailed
from runyard.model.package_settings import PackageSettings
from runyard.model.plan import EnvironmentSpec
from runyard.ports.environments import BuiltEnvironment

NO_CONDA_IN_IMAGES = "conda does not install into an image"
NO_CONDA_HINT = "Have it in the image: a Dockerfile with a step that installs it."


class ImageEnvironments(FoundImages):
    """Makes environments that lie in container images."""

    def __init__(
        self,
        root: Path,
        variables: Mapping[str, str],
        provisions: Callable[[], Provisions],
        place: PlaceFiles | None,
    ) -> None:
        super().__init__(root, variables, self._asked, lambda: self._provisions.addresses)
        self._ask, self._place, self._naming = provisions, place, Naming(root)
        self._provisions = Provisions()

    def sweep(self) -> list[str]:
        """Remove images that no environment stands on; nothing where no engine answers."""
        try:
            return Sweeping(engine_here(self._variables), self._naming).remove_images()
        except EnvironmentFailed:
            return []

    def _asked(self) -> PackageSettings:
        self._provisions = self._ask()
        return self._provisions.settings

    def _construct(
        self,
        folder: EnvironmentFolder,
        spec: EnvironmentSpec,
        sources: Sources,
        say: Say,
        held: int,
        elsewhere: MadeElsewhere | None,
    ) -> BuiltEnvironment:
        assert spec.image
        assert isinstance(folder, ImageFolder)
        if spec.conda:
            say("conda packages of an environment in an image come from the Python package index.")
        require_twins(spec, say, why=NO_CONDA_IN_IMAGES, hint=NO_CONDA_HINT)
        engine = engine_here(self._variables)
        scratch = folder.fresh_scratch()
        build = ImageBuild(
            engine=engine,
            naming=self._naming,
            folder=folder,
            spec=spec,
            wanted=spec.image,
            sources=sources,
            bring=elsewhere.bring if elsewhere else never,
            held=held,
            say=say,
        )
        bases = self._bases(engine, folder, sources, scratch, say)
        try:
            with shared(builders_lock(self._root)):
                Sweeping(engine, self._naming).remove_left(folder.key)
                built = build.make(bases, scratch, Lock.parse(elsewhere.lock) if elsewhere else None)
            folder.fresh.unlink(missing_ok=True)
            return built
        except (OSError, EnvironmentFailed):
            folder.remove()
            raise
        finally:
            folder.remove_scratch()

    def _bases(self, engine: Engine, folder: ImageFolder, sources: Sources, scratch: Path, say: Say) -> Bases:
        return Bases(
            engine=engine,
            naming=self._naming,
            sources=sources,
            registries=self._provisions.registries,
            place=self._place,
            scratch=scratch,
            key=folder.key,
            is_fresh=folder.fresh.exists(),
            say=say,
        )
