from collections.abc import Callable, Mapping
from pathlib import Path

from runyard.core.durable_files import shared_lock
from runyard.core.errors import EnvironmentFailed
from runyard.core.ports.environments import BuiltEnvironment
from runyard.core.records.environments import PackageSettings
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.environments.compiled_wheels import no_wheel
from runyard.environments.conda.tool import require_pypi_packages
from runyard.environments.containers.engine import ContainerEngine
from runyard.environments.folder import EnvironmentFolder
from runyard.environments.images.base_image import BaseImages
from runyard.environments.images.build import ImageBuild
from runyard.environments.images.built_images import BuiltImages, ImageFolder, local_engine
from runyard.environments.images.cleanup import ImageCleanup, builders_lock
from runyard.environments.images.names import ImageNames
from runyard.environments.lockfile import LockFile
from runyard.environments.package_sources import BuildSettings, PackageSources, WriteFiles
from runyard.environments.programs import LogLine
from runyard.environments.uv_environments import PrebuiltEnvironment

NO_CONDA_IN_IMAGES = "conda does not install into an image"
NO_CONDA_HINT = "Have it in the image: a Dockerfile with a step that installs it."


class ImageEnvironments(BuiltImages):
    """Builds environments in container images."""

    def __init__(
        self,
        root: Path,
        variables: Mapping[str, str],
        settings: Callable[[], BuildSettings],
        write_files: WriteFiles | None,
    ) -> None:
        super().__init__(root, variables, self._package_settings, lambda: self._loaded.addresses)
        self._load_settings, self._write_files, self._naming = settings, write_files, ImageNames(root)
        self._loaded = BuildSettings()

    def sweep(self) -> list[str]:
        """Remove images that no environment needs; does nothing without a container engine."""
        try:
            return ImageCleanup(local_engine(self._variables), self._naming).remove_images()
        except EnvironmentFailed:
            return []

    def _package_settings(self) -> PackageSettings:
        self._loaded = self._load_settings()
        return self._loaded.settings

    def _construct(
        self,
        folder: EnvironmentFolder,
        spec: EnvironmentSpec,
        sources: PackageSources,
        log: LogLine,
        held: int,
        prebuilt: PrebuiltEnvironment | None,
    ) -> BuiltEnvironment:
        assert spec.image
        assert isinstance(folder, ImageFolder)
        if spec.conda:
            log("conda packages of an environment in an image come from the Python package index.")
        require_pypi_packages(spec, log, why=NO_CONDA_IN_IMAGES, hint=NO_CONDA_HINT)
        engine = local_engine(self._variables)
        scratch = folder.fresh_scratch()
        build = ImageBuild(
            engine=engine,
            naming=self._naming,
            folder=folder,
            spec=spec,
            wanted=spec.image,
            sources=sources,
            fetch_wheel=prebuilt.fetch_wheel if prebuilt else no_wheel,
            held=held,
            log=log,
        )
        bases = self._bases(engine, folder, sources, scratch, log)
        try:
            with shared_lock(builders_lock(self._root)):
                ImageCleanup(engine, self._naming).remove_left(folder.key)
                built = build.make(bases, scratch, LockFile.parse(prebuilt.lock) if prebuilt else None)
            folder.fresh.unlink(missing_ok=True)
            return built
        except (OSError, EnvironmentFailed):
            folder.remove()
            raise
        finally:
            folder.remove_scratch()

    def _bases(
        self, engine: ContainerEngine, folder: ImageFolder, sources: PackageSources, scratch: Path, log: LogLine
    ) -> BaseImages:
        return BaseImages(
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
