import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from runyard.containers.contents import build_context
from runyard.containers.dockerfile import with_arguments
from runyard.containers.engine import Engine
from runyard.containers.records import DOCKER, ImageFacts
from runyard.containers.registries import RegistryCredentials
from runyard.environments.gate.serving import Gate, serving
from runyard.environments.images.naming import HOME, Naming
from runyard.environments.images.private_names import salt_of
from runyard.environments.programs import Say
from runyard.environments.provisions import PlaceFiles
from runyard.environments.sources import PROXY_VARIABLES, Sources
from runyard.errors import EnvironmentFailed
from runyard.model.causes import Cause
from runyard.model.images import ImageSpec
from runyard.planning.passwords import hidden


@dataclass(frozen=True)
class DockerfileBuild:
    """Builds a Dockerfile with the workspace's package settings as build arguments.

    No secret stays in the image: its history may name only addresses without one.
    """

    engine: Engine
    naming: Naming
    sources: Sources
    registries: Mapping[str, RegistryCredentials]
    write_files: PlaceFiles | None
    scratch: Path
    log: Say

    def make(self, wanted: ImageSpec) -> ImageFacts:
        """Build the image; the engine's layer cache makes a repeated build cheap."""
        self.log("Building the Dockerfile:")
        for line in wanted.dockerfile.splitlines():
            self.log(f"  {hidden(line)}")
        with self._proxy() as proxy:
            try:
                return self._built(wanted, self.sources.build_args(proxy.addresses))
            finally:
                for error in proxy.errors:
                    self.log(error)

    def _built(self, wanted: ImageSpec, arguments: Mapping[str, str]) -> ImageFacts:
        # Engines pass proxy arguments to every step and keep them out of the history.
        labels = {HOME: self.naming.home}
        text = with_arguments(wanted.dockerfile, arguments.keys() - set(PROXY_VARIABLES), labels)
        folder = self.scratch / "context"
        try:
            context = build_context(text, self._context(wanted, folder))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        is_offline = self.sources.settings.offline
        with context.archive:
            return self.engine.images.build(
                context,
                self.log,
                name=self.naming.base(json.dumps(asdict(wanted), sort_keys=True)),
                platform=wanted.platform,
                labels=labels,
                build_args=arguments,
                credentials=self.registries,
                network="none" if is_offline else "host",
                is_offline=is_offline,
            )

    @contextmanager
    def _proxy(self) -> Iterator[Gate]:
        if self.sources.settings.offline:
            self.log("The workspace is offline: the Dockerfile's steps have no network.")
            yield Gate({})
        elif self._is_on_this_machine():
            with serving(self.sources, salt_of(self.naming)) as proxy:
                for source, address in proxy.addresses.items():
                    self.log(f"The Dockerfile's steps find {hidden(source)} at {address} while they run.")
                self._log_withheld(proxy)
                yield proxy
        else:
            self._log_withheld(Gate({}))
            yield Gate({})

    def _is_on_this_machine(self) -> bool:
        """Whether build steps with the host network reach this machine's loopback address."""
        facts = self.engine.facts()
        return self.engine.address.startswith("unix:") and not (facts.is_rootless and facts.name == DOCKER)

    def _log_withheld(self, proxy: Gate) -> None:
        for source in self.sources.withheld(proxy.addresses):
            self.log(f"The Dockerfile's steps are not told of {source}: the image would keep it, or cannot reach it.")

    def _context(self, wanted: ImageSpec, folder: Path) -> list[tuple[str, Path, int]]:
        if not wanted.context:
            return []
        if self.write_files is None:
            raise EnvironmentFailed(
                "The files of the build context cannot be had here.",
                hint="Submit a run of this environment, or build it through the service.",
                cause=Cause.DOCKERFILE_FAILED,
                said="no build context",
            )
        self.write_files(wanted.context, folder)
        return [(entry.path, folder / entry.path, entry.mode) for entry in wanted.context]
