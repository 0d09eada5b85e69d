from collections.abc import Mapping

from runyard.core.definitions.run import RunDefinition
from runyard.model.data import NetworkRules
from runyard.planning.variables import submitter_variables
from runyard.settings import Settings, network_variables

PATIENCE_SECONDS = 10.0
"""How long a request of a user waits for a store that does not answer."""


class Network:
    """How data may be read over a network, for whom."""

    def __init__(self, settings: Settings) -> None:
        self._own, self._allow_private = settings.network_variables, settings.allow_private_addresses
        limit = settings.max_file_bytes
        self._limits = {"max_file_bytes": limit, "max_untold_bytes": limit} if limit else {}

    def for_request(self, variables: Mapping[str, str]) -> NetworkRules:
        """Somebody waits for the answer, so a store that is away is not asked again for long."""
        return NetworkRules(
            allow_private=self._allow_private,
            variables=self._chosen(variables),
            **self._limits,
            silence_seconds=PATIENCE_SECONDS,
            retry_seconds=PATIENCE_SECONDS,
        )

    def for_run(self, definition: RunDefinition) -> NetworkRules:
        """With the proxies and certificates of whoever submitted it."""
        return NetworkRules(
            allow_private=self._allow_private,
            variables=self._chosen(submitter_variables(definition)),
            **self._limits,
        )

    def _chosen(self, given: Mapping[str, str]) -> Mapping[str, str]:
        """A proxy of the client's choice could reach what the operator closed, so it counts on a laptop alone."""
        return (network_variables(given) if self._allow_private else {}) or self._own
