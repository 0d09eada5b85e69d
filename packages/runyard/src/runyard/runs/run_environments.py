from runyard.core.definitions.run import RunDefinition
from runyard.core.principal import Principal
from runyard.model.plan import EnvironmentSpec
from runyard.planning.container_wish import check_host_access, check_local_files, without_reach
from runyard.planning.environment import plan_environment
from runyard.services.environment_names import EnvironmentNames
from runyard.services.incoming_environments import IncomingEnvironments


class RunEnvironments:
    """Checks and names the environment of a submitted definition, before the run is stored."""

    def __init__(self, incoming: IncomingEnvironments, names: EnvironmentNames, *, allows_host_access: bool) -> None:
        self._incoming, self._names, self._allows_host_access = incoming, names, allows_host_access

    def accept(
        self, who: Principal, workspace: str, definition: RunDefinition, *, is_started: bool = True
    ) -> RunDefinition:
        """Return the definition to store: passwords taken out, environment named.

        Raises InvalidArgument for an environment that can never be built or that the operator does not allow. Only
        passwords are taken out for a run that we do not start (`is_started=False`).
        """
        kept = self._incoming.of_definition(who, workspace, definition)
        if not is_started:
            return kept
        if self._check(kept).image is not None and not self._allows_host_access:
            kept = without_reach(kept)
        if not kept.environment:
            return kept
        return kept.with_environment(self._names.named(who, workspace, kept.environment))

    def _check(self, definition: RunDefinition) -> EnvironmentSpec:
        spec = plan_environment(definition, gpu_present=False)
        if spec.image is not None:
            check_host_access(definition, is_allowed=self._allows_host_access)
            if not self._allows_host_access:
                check_local_files(spec)
        return spec
