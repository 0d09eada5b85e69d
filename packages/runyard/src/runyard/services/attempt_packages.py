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
    """Users and passwords by registry address."""
    addresses: Mapping[str, str]
    """URLs with passwords, by the marked URLs that stand for them in the environment."""


class AttemptPackages:
    """Settings and secrets for a node that builds the environment of an attempt; they are in no plan or file."""

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
        """Settings, with only the logins and addresses that the environment needs. Raises Conflict once the script
        runs: the build is over, and the script could read the node's token."""
        self._access.attempt(who, Action.SERVE_ATTEMPT, attempt_id)
        run = self._runs.get(run_of(attempt_id))
        if run.status in _BUILT and not run.is_interactive:
            raise Conflict(f"Run {run.id} is {run.status}: its environment is built.")
        environment = run.definition.environment
        image = image_of(environment)
        registries = self._logins.of(run.workspace, registries_of(image)) if image else {}
        addresses = self._addresses.of(run.workspace, environment.raw)
        return BuildProvisions(self._packages.get(SERVICE, run.workspace), registries, addresses)
