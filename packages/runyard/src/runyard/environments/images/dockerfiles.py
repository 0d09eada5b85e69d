import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from runyard.containers.contents import build_context
from runyard.containers.dockerfile import with_arguments
from runyard.containers.engine import Engine
from runyard.containers.images import ImageFacts, RegistryCredentials
from runyard.containers.records import DOCKER
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
    """Builds Dockerfiles, whose steps take packages from where the workspace's settings say. Nothing of that stays in
    the image: its history may name an address that held no secret."""

    engine: Engine
    naming: Naming
    sources: Sources
    registries: Mapping[str, RegistryCredentials]
    place: PlaceFiles | None
    scratch: Path
    say: Say

    def make(self, wanted: ImageSpec) -> ImageFacts:
        """The engine's own cache of layers makes a repeated build cheap."""
        self.say("Building the Dockerfile:")
        for line in wanted.dockerfile.splitlines():
            self.say(f"  {hidden(line)}")
        with self._gate() as gate:
            try:
                return self._built(wanted, self.sources.build_args(gate.addresses))
            finally:
                for complaint in gate.complaints:
                    self.say(complaint)

    def _built(self, wanted: ImageSpec, arguments: Mapping[str, str]) -> ImageFacts:
        # Engines let every step see those of proxies, and keep them out of the history.
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
                self.say,
                name=self.naming.base(json.dumps(asdict(wanted), sort_keys=True)),
                platform=wanted.platform,
                labels=labels,
                build_args=arguments,
                credentials=self.registries,
                network="none" if is_offline else "host",
                is_offline=is_offline,
            )

    @contextmanager
    def _gate(self) -> Iterator[Gate]:
        if self.sources.settings.offline:
            self.say("The workspace is offline: the Dockerfile's steps have no network.")
            yield Gate({})
        elif self._is_on_this_machine():
            with serving(self.sources, salt_of(self.naming)) as gate:
                for place, address in gate.addresses.items():
                    self.say(f"The Dockerfile's steps find {hidden(place)} at {address} while they run.")
                self._tell_withheld(gate)
                yield gate
        else:
            self._tell_withheld(Gate({}))
            yield Gate({})

    def _is_on_this_machine(self) -> bool:
        """Whether steps that have the host's network reach this machine's loopback address."""
        facts = self.engine.facts()
        return self.engine.address.startswith("unix:") and not (facts.is_rootless and facts.name == DOCKER)

    def _tell_withheld(self, gate: Gate) -> None:
        for place in self.sources.withheld(gate.addresses):
            self.say(f"The Dockerfile's steps are not told of {place}: the image would keep it, or cannot reach it.")

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
