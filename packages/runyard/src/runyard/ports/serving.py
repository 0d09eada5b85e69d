from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from runyard.model.web_services import ObservedService, ServiceSpec


class ServiceHost(Protocol):
    """Runs web services apart from the service: they answer while it is down, and come back with the machine.

    Every call returns promptly and may be repeated.
    """

    def apply(self, spec: ServiceSpec) -> None:
        """Make it so: a new web service, or a change of one. What is said last counts. The spec is on disk when this
        returns. Workers of an older revision answer until those of the new one are ready."""

    def remove(self, service_id: str) -> None:
        """Its port no longer answers, its processes end and its folder goes. Quiet when gone."""

    def check(self, spec: ServiceSpec) -> None:
        """Raises InvalidArgument for a certificate that is not that of its key."""

    def generation(self, service_id: str) -> int:
        """Of the spec that is on disk; 0 where there is none."""

    def service_ids(self) -> Sequence[str]:
        """Of all that were applied and not removed."""

    def observe(self, service_id: str) -> ObservedService | None:
        """None for one that was never applied."""

    def wait(self, service_id: str, version: int, seconds: float) -> ObservedService | None:
        """As `observe`, once its version is above that or the time is over."""

    def read_log(self, service_id: str, offset: int, limit: int) -> tuple[bytes, int]:
        """Bytes of its log from there on, and the offset behind them. A negative offset counts from the end. The log
        keeps its offsets when its oldest part is dropped."""

    def metrics(self, service_id: str) -> Mapping[str, Any]:
        """Requests by status, latencies, queue, replicas and their memory; empty while the gateway is not there."""

    def revive(self) -> None:
        """Have the gateway run where there is anything to answer for. Called at the start of the service, and again."""
