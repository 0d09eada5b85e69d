import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from runyard.core.errors import EnvironmentFailed
from runyard.core.records.environments import FailureCause
from runyard.core.records.launch_plan import ImageSpec
from runyard.core.url_secrets import redacted
from runyard.environments.containers.build_context import build_context, declare_arguments
from runyard.environments.containers.engine import ContainerEngine
from runyard.environments.containers.records import DOCKER, ImageFacts
from runyard.environments.containers.registries import RegistryCredentials
from runyard.environments.images.names import HOME, ImageNames, home_salt
from runyard.environments.package_index.proxy import PackageIndexProxy, serve_packages
from runyard.environments.package_sources import PROXY_VARIABLES, PackageSources, WriteFiles
from runyard.environments.programs import LogLine


@dataclass(frozen=True)
class DockerfileBuild:
    """Builds a Dockerfile with the workspace's package settings as build arguments.

    No secret stays in the image: its history may name only addresses without one.
    """

    engine: ContainerEngine
    naming: ImageNames
    sources: PackageSources
    registries: Mapping[str, RegistryCredentials]
    write_files: WriteFiles | None
    scratch: Path
    log: LogLine

    def make(self, wanted: ImageSpec) -> ImageFacts:
        """Build the image; the engine's layer cache makes a repeated build cheap."""
        self.log("Building the Dockerfile:")
        for line in wanted.dockerfile.splitlines():
            self.log(f"  {redacted(line)}")
        with self._proxy() as proxy:
            try:
                return self._built(wanted, self.sources.build_args(proxy.addresses))
            finally:
                for error in proxy.errors:
                    self.log(error)

    def _built(self, wanted: ImageSpec, arguments: Mapping[str, str]) -> ImageFacts:
        # Engines pass proxy arguments to every step and keep them out of the history.
        labels = {HOME: self.naming.home}
        text = declare_arguments(wanted.dockerfile, arguments.keys() - set(PROXY_VARIABLES), labels)
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
    def _proxy(self) -> Iterator[PackageIndexProxy]:
        if self.sources.settings.offline:
            self.log("The workspace is offline: the Dockerfile's steps have no network.")
            yield PackageIndexProxy({})
        elif self._is_on_this_machine():
            with serve_packages(self.sources, home_salt(self.naming)) as proxy:
                for source, address in proxy.addresses.items():
                    self.log(f"The Dockerfile's steps find {redacted(source)} at {address} while they run.")
                self._log_withheld(proxy)
                yield proxy
        else:
            self._log_withheld(PackageIndexProxy({}))
            yield PackageIndexProxy({})

    def _is_on_this_machine(self) -> bool:
        """Whether build steps with the host network reach this machine's loopback address."""
        facts = self.engine.facts()
        return self.engine.address.startswith("unix:") and not (facts.is_rootless and facts.name == DOCKER)

    def _log_withheld(self, proxy: PackageIndexProxy) -> None:
        for source in self.sources.withheld(proxy.addresses):
            self.log(f"The Dockerfile's steps are not told of {source}: the image would keep it, or cannot reach it.")

    def _context(self, wanted: ImageSpec, folder: Path) -> list[tuple[str, Path, int]]:
        if not wanted.context:
            return []
        if self.write_files is None:
            raise EnvironmentFailed(
                "The files of the build context cannot be had here.",
                hint="Submit a run of this environment, or build it through the service.",
                cause=FailureCause.DOCKERFILE_FAILED,
                said="no build context",
            )
        self.write_files(wanted.context, folder)
        return [(entry.path, folder / entry.path, entry.mode) for entry in wanted.context]
