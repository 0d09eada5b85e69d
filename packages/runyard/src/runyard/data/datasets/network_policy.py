from collections.abc import Mapping

from runyard.core.definitions.run import RunDefinition
from runyard.core.records.data import NetworkRules
from runyard.core.settings import Settings, network_variables
from runyard.core.submitter_variables import submitter_variables

PATIENCE_SECONDS = 10.0
"""How long a request of a user waits for a store that does not respond."""


class NetworkPolicy:
    """Makes the NetworkRules of requests and runs from the settings."""

    def __init__(self, settings: Settings) -> None:
        self._own, self._allow_private = settings.network_variables, settings.allow_private_addresses
        limit = settings.max_file_bytes
        self._limits = {"max_file_bytes": limit, "max_untold_bytes": limit} if limit else {}

    def for_request(self, variables: Mapping[str, str]) -> NetworkRules:
        """Rules for a request of a user: short timeouts, since somebody waits."""
        return NetworkRules(
            allow_private=self._allow_private,
            variables=self._chosen(variables),
            **self._limits,
            silence_seconds=PATIENCE_SECONDS,
            retry_seconds=PATIENCE_SECONDS,
        )

    def for_run(self, definition: RunDefinition) -> NetworkRules:
        """Rules for a run, with the proxies and certificates of its submitter."""
        return NetworkRules(
            allow_private=self._allow_private,
            variables=self._chosen(submitter_variables(definition)),
            **self._limits,
        )

    def _chosen(self, given: Mapping[str, str]) -> Mapping[str, str]:
        """Proxy variables to use. Those of the client count only where private addresses are allowed (a laptop).

        Otherwise a client could reach addresses that the operator forbids, through a proxy of its choice.
        """
        return (network_variables(given) if self._allow_private else {}) or self._own
