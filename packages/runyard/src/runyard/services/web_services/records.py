from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from runyard.core.policy import Action
from runyard.core.principal import Principal
from runyard.errors import NotFound
from runyard.listen_settings import EVERYWHERE, in_url, is_loopback
from runyard.model.assets import Asset
from runyard.model.plan import EnvironmentSpec
from runyard.model.web_services import (
    Listening,
    ObservedService,
    Scorer,
    ServiceState,
    ServiceType,
)
from runyard.planning.plan_json import environment_from_json
from runyard.planning.web_services.endpoint import shares
from runyard.planning.web_services.service_config import asks_for_keys, asks_for_tokens
from runyard.planning.web_services.web_service import SCORE, scoring_path
from runyard.ports.serving import ServiceHost
from runyard.ports.stores import AssetStore
from runyard.services.access import Access
from runyard.services.web_services.endpoint_records import together, version_record
from runyard.services.web_services.shown import NoMetrics, ServiceMetrics, ServiceRecord, metrics_in
from runyard.services.web_services.versions import is_endpoint, version_asset_name, versions_in
from runyard.services.web_services.writing import KIND

LockOf = Callable[[EnvironmentSpec], str]
"""Lock of a built environment; "" when it is not built."""
FIRST_TAIL_BYTES, MOST_TAIL_BYTES = 64 * 1024, 64 * 1024 * 1024
SWAGGER = "/swagger.json"


class ServiceRecords:
    """Reads records, logs and metrics of web services."""

    def __init__(
        self, assets: AssetStore, access: Access, host: ServiceHost, listening: Listening, lock_of: LockOf
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
        return metrics_in(self._host.metrics(service.id))

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
        return together(own, records)

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
        return "localhost" if is_loopback(host) or host in EVERYWHERE else in_url(host)
