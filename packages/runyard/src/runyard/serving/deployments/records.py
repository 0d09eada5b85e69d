"""Web services as the API shows them: what is stored, combined with the state that the gateway observes."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any, TypeVar

from runyard.access.authorization import Access
from runyard.core.errors import NotFound
from runyard.core.listen_settings import ANY_ADDRESS, is_loopback, url_host
from runyard.core.plan_json import environment_from_json
from runyard.core.policy import Action
from runyard.core.ports.serving import ServiceHost
from runyard.core.ports.stores import AssetStore
from runyard.core.principal import Principal
from runyard.core.records.assets import Asset
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.core.records.web_services import (
    ListenDefaults,
    ObservedService,
    Scorer,
    ServiceFailure,
    ServiceState,
    ServiceType,
)
from runyard.serving.deployments.config import asks_for_keys, asks_for_tokens
from runyard.serving.deployments.service_spec import SCORE, scoring_path
from runyard.serving.deployments.versions import EndpointVersion, is_endpoint, shares, version_asset_name, versions_in
from runyard.serving.deployments.writer import KIND


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
    """Current step of the running deployment: files, environment or init; "" if none runs."""
    revision: int
    """Revision that answers requests; 0 before the first is ready."""
    wanted_revision: int
    error: ServiceFailure | None
    failed_revision: int
    port: int | None
    """Null until it has one, as are the addresses."""
    scoring_uri: str | None
    swagger_uri: str | None
    models: Sequence[str]
    """NAME:VERSION of each."""
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
    """Schema of inputs and outputs, as reported by the worker."""
    notes: Sequence[str]
    lock: str | None = None
    """Lock of its environment; "" until it is built, null in listings."""


@dataclass(frozen=True, kw_only=True)
class VersionRecord(ServiceRecord):
    """One version of an endpoint. `name` is the version's own."""

    traffic_percentile: int
    share: int
    """Percentage of the requests."""
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
    """Empty metrics, returned while the gateway does not answer."""


def service_metrics(answer: Mapping[str, Any]) -> ServiceMetrics | NoMetrics:
    """Convert the gateway's answer; NoMetrics if it is empty."""
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


LockOf = Callable[[EnvironmentSpec], str]
"""Lock of a built environment; "" when it is not built."""
FIRST_TAIL_BYTES, MOST_TAIL_BYTES = 64 * 1024, 64 * 1024 * 1024
SWAGGER = "/swagger.json"


class ServiceRecords:
    """Reads records, logs and metrics of web services."""

    def __init__(
        self, assets: AssetStore, access: Access, host: ServiceHost, listening: ListenDefaults, lock_of: LockOf
    ) -> None:
        self._assets, self._access, self._host = assets, access, host
        self._listening, self._lock_of = listening, lock_of

    def short(self, who: Principal, service: Asset) -> ServiceRecord:
        self._access.asset(who, Action.READ_ASSET, service)
        return self._record(service, self._host.observe(service.id))

    def whole(self, who: Principal, service: Asset) -> ServiceRecord:
        """Record with the lock of its environment."""
        return self._with_lock(service, self.short(who, service))

    def wait(self, who: Principal, service: Asset, version: int, seconds: float) -> ServiceRecord:
        """Record once its version is above the given one, or after the time. Raises NotFound when it is deleted."""
        self._access.asset(who, Action.READ_ASSET, service)
        observed = self._host.wait(service.id, version, seconds)
        if observed is None and service.id not in self._host.service_ids():
            raise NotFound(f"The web service {service.name!r} was deleted (WebserviceNotFound).")
        return self._with_lock(service, self._record(service, observed))

    def log(self, who: Principal, service: Asset, offset: int, limit: int) -> tuple[bytes, int]:
        """Bytes from the offset on, and the offset behind them; a negative one counts from the end."""
        self._access.asset(who, Action.READ_ASSET, service)
        return self._host.read_log(service.id, offset, limit)

    def last_lines(self, who: Principal, service: Asset, count: int) -> tuple[bytes, int]:
        """Last lines of the log; for an endpoint, those of each version follow its own."""
        self._access.asset(who, Action.READ_ASSET, service)
        lines, behind = self._last_lines(service.id, count)
        pieces = [
            b"==> version %b <==\n%b" % (name.encode(), self._last_lines(version.id, count)[0])
            for name, version in self._versions(service).items()
        ]
        return b"\n".join([*([lines] if lines or not pieces else []), *pieces]), behind

    def metrics(self, who: Principal, service: Asset) -> ServiceMetrics | NoMetrics:
        self._access.asset(who, Action.READ_ASSET, service)
        return service_metrics(self._host.metrics(service.id))

    def _last_lines(self, service_id: str, count: int) -> tuple[bytes, int]:
        if count <= 0:
            return b"", self._host.read_log(service_id, -1, 1)[1]
        size = FIRST_TAIL_BYTES
        while True:
            data, behind = self._host.read_log(service_id, -size, size)
            if data.rstrip(b"\n").count(b"\n") >= count or len(data) < size or size >= MOST_TAIL_BYTES:
                return b"".join(data.splitlines(keepends=True)[-count:]), behind
            size *= 4

    def _with_lock(self, service: Asset, record: ServiceRecord) -> ServiceRecord:
        default = next((version.name for version in versions_in(service) if version.is_default), None)
        worker = service if default is None else self._versions(service).get(default, service)
        return replace(record, lock=self._lock_of(environment_from_json(dict(worker.body["environment"]))))

    def _versions(self, endpoint: Asset) -> dict[str, Asset]:
        """Assets of the versions by name, without one that is being removed."""
        found = {}
        for version in versions_in(endpoint):
            with suppress(NotFound):
                name = version_asset_name(endpoint.name, version.name)
                found[version.name] = self._assets.get(endpoint.workspace, KIND, name)
        return found

    def _record(self, service: Asset, observed: ObservedService | None) -> ServiceRecord:
        own = self._own_record(service, observed)
        if not is_endpoint(service):
            return own
        assets, versions = self._versions(service), versions_in(service)
        records = {
            version.name: version_record(version, share.share, self._observed(assets[version.name]))
            for version, share in zip(versions, shares(versions), strict=True)
            if version.name in assets
        }
        return endpoint_record(own, records)

    def _observed(self, service: Asset) -> ServiceRecord:
        return self._own_record(service, self._host.observe(service.id))

    def _own_record(self, service: Asset, observed: ObservedService | None) -> ServiceRecord:
        body, type = service.body, ServiceType(service.body["type"])
        seen = observed or ObservedService(0, 0, 0, ServiceState.TRANSITIONING)
        wanted = body["revision"]
        is_over = wanted in (seen.revision, seen.failed_revision)
        port = seen.port or body["config"].get("port", 0)
        scoring_uri, swagger_uri = self._addresses(service, type, port) if port else (None, None)
        return ServiceRecord(
            id=service.id,
            name=service.name,
            type=type,
            version=seen.version,
            state=seen.state if is_over else ServiceState.TRANSITIONING,
            step=seen.step,
            revision=seen.revision,
            wanted_revision=wanted,
            error=seen.trouble,
            failed_revision=seen.failed_revision,
            port=port or None,
            scoring_uri=scoring_uri,
            swagger_uri=swagger_uri,
            models=body["models"],
            inference=body["inference"],
            config=body["config"],
            description=body["description"],
            properties=body["properties"],
            image_id=body["image_id"],
            auth_enabled=asks_for_keys(type, body["config"]),
            token_auth_enabled=asks_for_tokens(body["config"]),
            tags=service.tags,
            created_at=service.created_at,
            updated_at=service.modified_at,
            created_by=service.created_by,
            replicas=seen.replicas,
            wanted_replicas=seen.wanted_replicas,
            schema=seen.schema,
            notes=list(dict.fromkeys([*body["notes"], *seen.notes])),
        )

    def _addresses(self, service: Asset, type: ServiceType, port: int) -> tuple[str, str]:
        """scoring_uri and swagger_uri."""
        models = [model.rpartition(":")[0] for model in service.body["models"]]
        path = scoring_path(type, service.name, Scorer(service.body["scorer"]), models)
        is_encrypted = service.body["config"].get("ssl_enabled") or self._listening.certificate
        root = f"{'https' if is_encrypted else 'http'}://{self._host_name()}:{port}"
        below = path.removesuffix(SCORE) if path.endswith(SCORE) else ""
        return root + path, root + below + SWAGGER

    def _host_name(self) -> str:
        if self._listening.names:
            return self._listening.names[0]
        host = self._listening.host
        return "localhost" if is_loopback(host) or host in ANY_ADDRESS else url_host(host)


R = TypeVar("R", bound=ServiceRecord)


def version_record(version: EndpointVersion, share: int, record: ServiceRecord) -> VersionRecord:
    return _extended(
        VersionRecord,
        replace(record, name=version.name),
        traffic_percentile=version.traffic_percentile,
        share=share,
        is_default=version.is_default,
        version_type="Control" if version.is_control else "Treatment",
    )


def endpoint_record(own: ServiceRecord, versions: Mapping[str, VersionRecord]) -> EndpointRecord:
    """Combine the records of its versions. Its deployment has ended when all have, and failed when one has."""
    parts: list[ServiceRecord] = [own, *versions.values()]
    is_over = all(part.wanted_revision in (part.revision, part.failed_revision) for part in parts)
    failed = {name: part for name, part in [("", own), *versions.items()] if _has_failed(part)}
    wanted = sum(part.wanted_revision for part in versions.values())
    default = next((part for part in versions.values() if part.is_default), own)
    shown = replace(
        own,
        state=_state(own, default) if is_over else ServiceState.TRANSITIONING,
        step=next((part.step for part in parts if part.step), ""),
        error=_error(failed or {"": default}),
        wanted_revision=wanted,
        revision=wanted if is_over and not failed else wanted - 1,
        failed_revision=wanted if is_over and failed else 0,
        models=list(dict.fromkeys(model for part in versions.values() for model in part.models)),
        schema=default.schema,
        notes=list(dict.fromkeys(note for part in parts for note in part.notes)),
        replicas=sum(part.replicas for part in versions.values()),
        wanted_replicas=sum(part.wanted_replicas for part in versions.values()),
    )
    return _extended(EndpointRecord, shown, versions=dict(versions))


def _extended(to: type[R], record: ServiceRecord, **more: Any) -> R:
    """The record as its subclass, with the additional fields."""
    return to(**{field.name: getattr(record, field.name) for field in fields(ServiceRecord)}, **more)


def _has_failed(part: ServiceRecord) -> bool:
    return part.revision != part.wanted_revision == part.failed_revision


def _state(own: ServiceRecord, default: ServiceRecord) -> ServiceState:
    """An endpoint answers when its port is open and its default version answers."""
    return default.state if own.revision else own.state


def _error(parts: Mapping[str, ServiceRecord]) -> ServiceFailure | None:
    for name, part in parts.items():
        if part.error is not None:
            return replace(part.error, problem=f"Version {name!r}: {part.error.problem}") if name else part.error
    return None
