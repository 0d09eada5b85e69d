from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from runyard.core.records.web_services import ObservedService, ServiceSpec


class ServiceHost(Protocol):
    """Runs web services outside of the service: they answer while it is down, and restart with the machine.

    Every call returns promptly and is safe to repeat.
    """

    def apply(self, spec: ServiceSpec) -> None:
        """Create or change a web service; the last call wins. The spec is on disk when this returns. Workers of the old
        revision answer until those of the new revision are ready."""

    def remove(self, service_id: str) -> None:
        """Close its port, end its processes and delete its folder. Does nothing if it is gone."""

    def check(self, spec: ServiceSpec) -> None:
        """Raises InvalidArgument if the certificate does not match its key."""

    def generation(self, service_id: str) -> int:
        """Generation of the spec on disk; 0 if there is none."""

    def service_ids(self) -> Sequence[str]:
        """Ids of all services that were applied and not removed."""

    def observe(self, service_id: str) -> ObservedService | None:
        """Last reported state; None for a service that was never applied."""

    def wait(self, service_id: str, version: int, seconds: float) -> ObservedService | None:
        """Wait until its version is above the given one or the time is over; return the same as `observe`."""

    def read_log(self, service_id: str, offset: int, limit: int) -> tuple[bytes, int]:
        """Bytes of its log from the offset on, and the offset after them. A negative offset counts from the end.
        Offsets stay valid when the oldest part of the log is dropped."""

    def metrics(self, service_id: str) -> Mapping[str, Any]:
        """Requests by status, latencies, queue, replicas and their memory; empty while the gateway is down."""

    def revive(self) -> None:
        """Start the gateway if any service needs it. Called when the service starts, and repeatedly afterwards."""
