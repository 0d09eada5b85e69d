from collections.abc import Mapping
from typing import Any

from runyard.errors import InvalidArgument
from runyard.model.plan import EnvironmentSpec
from runyard.planning.container_wish import check_host_access, check_local_files, without_reach
from runyard.planning.environment import plan_environment
from runyard.services.environment_names import EnvironmentNames
from runyard.services.incoming_environments import IncomingEnvironments


class RunEnvironments:
    """What happens to the environment of a definition that comes in, before the run is stored."""

    def __init__(self, incoming: IncomingEnvironments, names: EnvironmentNames, *, allows_host_access: bool) -> None:
        self._incoming, self._names, self._allows_host_access = incoming, names, allows_host_access

    def taken(self, workspace: str, definition: Mapping[str, Any], *, is_started: bool = True) -> dict[str, Any]:
        """The definition as it is stored: without passwords, its environment named. What no machine could make, or
        its operator does not allow, is refused at once, before anything waits for it. A run that is not `is_started`
        by us is not looked at that closely."""
        kept = self._incoming.of_definition(workspace, definition)
        if not is_started:
            return kept
        if self._check(kept).image is not None and not self._allows_host_access:
            kept = without_reach(kept)
        if not kept.get("environment"):
            return kept
        return {**kept, "environment": self._names.named(workspace, kept["environment"])}

    def _check(self, definition: Mapping[str, Any]) -> EnvironmentSpec:
        try:
            spec = plan_environment(definition, gpu_present=False)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InvalidArgument(
                f"The environment of the run definition is not put together as one: {error}.",
                hint="Send it as Environment and the estimators make it.",
            ) from error
        if spec.image is not None:
            check_host_access(definition, is_allowed=self._allows_host_access)
            if not self._allows_host_access:
                check_local_files(spec)
        return spec
