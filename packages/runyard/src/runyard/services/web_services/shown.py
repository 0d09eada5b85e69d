"""Web services as the API shows them: what is stored, combined with the state that the gateway observes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from runyard.model.web_services import ServiceState, ServiceTrouble, ServiceType


@dataclass(frozen=True, kw_only=True)
class ServiceRecord:
    """A deployment has ended when `revision` or `failed_revision` is `wanted_revision`. The one before answers until
    then, and after a failure."""

    id: str
    name: str
    type: ServiceType
    version: int
    """Grows with every change of what is shown."""
    state: ServiceState
    step: str
    """Of the deployment that goes on: files, environment, init; "" when none does."""
    revision: int
    """Of the workers that answer now; 0 before the first are ready."""
    wanted_revision: int
    error: ServiceTrouble | None
    failed_revision: int
    port: int | None
    """Null until it has one, as are the addresses."""
    scoring_uri: str | None
    swagger_uri: str | None
    models: Sequence[str]
    """As NAME:VERSION."""
    inference: Mapping[str, Any] | None
    """The scoring script as it was sent; null for a model that is served by its framework."""
    config: Mapping[str, Any]
    """Parameters of deploy_configuration that were given."""
    description: str
    properties: Mapping[str, str]
    image_id: str | None
    auth_enabled: bool
    token_auth_enabled: bool
    tags: Mapping[str, str]
    created_at: datetime
    updated_at: datetime
    created_by: str
    """`owner`, `run:ID`, or "" where it is from before that was recorded."""
    replicas: int
    wanted_replicas: int
    schema: Mapping[str, object]
    """Of inputs and outputs, as the worker told it."""
    notes: Sequence[str]
    lock: str | None = None
    """Of its environment, "" before that is built; null in listings."""


@dataclass(frozen=True, kw_only=True)
class VersionRecord(ServiceRecord):
    """One version of an endpoint. `name` is the version's own."""

    traffic_percentile: int
    share: int
    """Of the requests, in percent."""
    is_default: bool
    version_type: str
    """Control or Treatment."""


@dataclass(frozen=True, kw_only=True)
class EndpointRecord(ServiceRecord):
    """Its deployment has ended when those of all versions have; its state is that of the default version."""

    versions: Mapping[str, VersionRecord]


@dataclass(frozen=True)
class ReplicaMetrics:
    pid: int
    state: str
    requests: int
    memory_bytes: int
    peak_memory_bytes: int
    cpu_seconds: float
    restarts: int


@dataclass(frozen=True, kw_only=True)
class RequestMetrics:
    requests: Mapping[str, int]
    """Counts by status."""
    latency_ms: Mapping[str, float]
    """p50, p90, p95, p99 and max; empty before the first request."""
    queued: int
    in_work: int


@dataclass(frozen=True, kw_only=True)
class ServiceMetrics(RequestMetrics):
    replicas: Sequence[ReplicaMetrics]


@dataclass(frozen=True, kw_only=True)
class EndpointMetrics(ServiceMetrics):
    versions: Mapping[str, RequestMetrics]


@dataclass(frozen=True)
class NoMetrics:
    """While the gateway is away."""


def metrics_in(answer: Mapping[str, Any]) -> ServiceMetrics | NoMetrics:
    """From the gateway's answer, which is empty while it is away."""
    if not answer:
        return NoMetrics()
    replicas = [_replica(one) for one in answer["replicas"]]
    own = {name: answer[name] for name in _REQUESTS}
    if "versions" not in answer:
        return ServiceMetrics(**own, replicas=replicas)
    versions = {
        name: RequestMetrics(**{key: one[key] for key in _REQUESTS}) for name, one in answer["versions"].items()
    }
    return EndpointMetrics(**own, replicas=replicas, versions=versions)


_REQUESTS = ("requests", "latency_ms", "queued", "in_work")


def _replica(metrics: Mapping[str, Any]) -> ReplicaMetrics:
    return ReplicaMetrics(
        pid=metrics["pid"],
        state=metrics["state"],
        requests=metrics["requests"],
        memory_bytes=metrics["memory_bytes"],
        peak_memory_bytes=metrics["peak_memory_bytes"],
        cpu_seconds=metrics["cpu_seconds"],
        restarts=metrics["restarts"],
    )
