from collections.abc import Mapping
from dataclasses import dataclass

from runyard.core.policy import Action
from runyard.core.principal import SERVICE, Principal
from runyard.errors import Conflict
from runyard.model.package_settings import PackageSettings
from runyard.model.runs import AttemptId, RunStatus, run_of
from runyard.planning.image import image_of, registries_of
from runyard.ports.stores import RunStore
from runyard.services.access import Access
from runyard.services.package_settings import WorkspacePackages
from runyard.services.private_addresses import PrivateAddresses
from runyard.services.registries import RegistryLogins

_BUILT = frozenset({RunStatus.RUNNING, RunStatus.FINALIZING, RunStatus.CANCEL_REQUESTED})


@dataclass(frozen=True)
class BuildProvisions:
    settings: PackageSettings
    registries: Mapping[str, Mapping[str, str]]
    """Users and passwords, by the registry's address."""
    addresses: Mapping[str, str]
    """Those with passwords, by what stands for them in the environment."""


class AttemptPackages:
    """What a node is told when it builds the environment of an attempt: more than stands in any plan or file."""

    def __init__(
        self,
        runs: RunStore,
        packages: WorkspacePackages,
        logins: RegistryLogins,
        addresses: PrivateAddresses,
        access: Access,
    ) -> None:
        self._access = access
        self._runs, self._packages, self._logins, self._addresses = runs, packages, logins, addresses

    def of_attempt(self, who: Principal, attempt_id: AttemptId) -> BuildProvisions:
        """The logins are those that its image can need, the addresses those that it names, and no others. Raises
        Conflict once the script runs, which may read its node's token: nothing is built any more."""
        self._access.attempt(who, Action.SERVE_ATTEMPT, attempt_id)
        run = self._runs.get(run_of(attempt_id))
        if run.status in _BUILT and not run.is_interactive:
            raise Conflict(f"Run {run.id} is {run.status}: its environment is built.")
        environment = run.definition.environment
        image = image_of(environment)
        registries = self._logins.of(run.workspace, registries_of(image)) if image else {}
        addresses = self._addresses.of(run.workspace, environment.raw)
        return BuildProvisions(self._packages.get(SERVICE, run.workspace), registries, addresses)
