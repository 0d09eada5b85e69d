from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from runyard.environments.programs import Say
from runyard.environments.provisions import PlaceFiles, Provisions
from runyard.environments.uv import MadeElsewhere, UvEnvironments
from runyard.model.plan import EnvironmentSpec
from runyard.ports.environments import BuiltEnvironment, EnvironmentLock


class Environments:
    """The environments below one folder, of every kind: virtual environments of this machine, made by uv or by conda,
    and container images. An `EnvironmentBuilder`; safe to use from any number of processes.

    `variables` are the submitter's. `provisions` is asked once for each build, and never to find what is built.
    """

    def __init__(
        self,
        root: Path,
        variables: Mapping[str, str],
        provisions: Callable[[], Provisions] = Provisions,
        place: PlaceFiles | None = None,
    ) -> None:
        self._root, self._variables, self._provisions, self._place = root, variables, provisions, place
        self._virtual = UvEnvironments(root, variables)

    def find(self, spec: EnvironmentSpec) -> BuiltEnvironment | None:
        return self._virtual.find(spec)

    def ensure(self, spec: EnvironmentSpec, say: Say, elsewhere: MadeElsewhere | None = None) -> BuiltEnvironment:
        """As the port has it; where another machine has made the environment already, the same is made from that."""
        return self._virtual.ensure(spec, say, elsewhere)

    def lock_of(self, built: BuiltEnvironment) -> EnvironmentLock | None:
        """What another machine can make the same environment from; None for an interpreter of the user's own."""
        return self._virtual.lock_of(built)

    @contextmanager
    def hold(self, built: BuiltEnvironment) -> Iterator[None]:
        """Keep an environment from being pruned. EnvironmentFailed if that has happened already."""
        with self._virtual.hold(built):
            yield
