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
    """Builds environments in container images."""

    def __init__(
        self,
        root: Path,
        variables: Mapping[str, str],
        settings: Callable[[], Provisions],
        write_files: PlaceFiles | None,
    ) -> None:
        super().__init__(root, variables, self._package_settings, lambda: self._loaded.addresses)
        self._load_settings, self._write_files, self._naming = settings, write_files, Naming(root)
        self._loaded = Provisions()

    def sweep(self) -> list[str]:
        """Remove images that no environment needs; does nothing without a container engine."""
        try:
            return Sweeping(engine_here(self._variables), self._naming).remove_images()
        except EnvironmentFailed:
            return []

    def _package_settings(self) -> PackageSettings:
        self._loaded = self._load_settings()
        return self._loaded.settings

    def _construct(
        self,
        folder: EnvironmentFolder,
        spec: EnvironmentSpec,
        sources: Sources,
        log: Say,
        held: int,
        prebuilt: MadeElsewhere | None,
    ) -> BuiltEnvironment:
        assert spec.image
        assert isinstance(folder, ImageFolder)
        if spec.conda:
            log("conda packages of an environment in an image come from the Python package index.")
        require_twins(spec, log, why=NO_CONDA_IN_IMAGES, hint=NO_CONDA_HINT)
        engine = engine_here(self._variables)
        scratch = folder.fresh_scratch()
        build = ImageBuild(
            engine=engine,
            naming=self._naming,
            folder=folder,
            spec=spec,
            wanted=spec.image,
            sources=sources,
            fetch_wheel=prebuilt.fetch_wheel if prebuilt else never,
            held=held,
            log=log,
        )
        bases = self._bases(engine, folder, sources, scratch, log)
        try:
            with shared(builders_lock(self._root)):
                Sweeping(engine, self._naming).remove_left(folder.key)
                built = build.make(bases, scratch, Lock.parse(prebuilt.lock) if prebuilt else None)
            folder.fresh.unlink(missing_ok=True)
            return built
        except (OSError, EnvironmentFailed):
            folder.remove()
            raise
        finally:
            folder.remove_scratch()

    def _bases(self, engine: Engine, folder: ImageFolder, sources: Sources, scratch: Path, log: Say) -> Bases:
        return Bases(
            engine=engine,
            naming=self._naming,
            sources=sources,
            registries=self._loaded.registries,
            write_files=self._write_files,
            scratch=scratch,
            key=folder.key,
            is_fresh=folder.fresh.exists(),
            log=log,
        )
