"""A host of web services that does what a test says."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from runyard.core.records.web_services import ObservedService, ServiceSpec, ServiceState
from runyard.serving.gateway.http.listening_socket import tls_context


class ScriptedHost:
    """Every revision is Healthy once it is applied, unless told otherwise. As the gateway, it takes no notice of a
    generation that it has seen."""

    def __init__(self) -> None:
        self.specs: dict[str, ServiceSpec] = {}
        self.seen: dict[str, ObservedService] = {}
        self.logs: dict[str, bytes] = {}
        self.applied: list[ServiceSpec] = []
        self.refusal: Exception | None = None
        self.silence: Exception | None = None
        """Raised once the spec is on disk."""
        self.revived = 0

    def check(self, spec: ServiceSpec) -> None:
        tls_context(spec)

    def apply(self, spec: ServiceSpec) -> None:
        if self.refusal is not None:
            raise self.refusal
        if spec.generation > self.generation(spec.id):
            self._take(spec)
        if self.silence is not None:
            raise self.silence

    def _take(self, spec: ServiceSpec) -> None:
        self.applied.append(spec)
        self.specs[spec.id] = spec
        version = self.seen[spec.id].version + 1 if spec.id in self.seen else 1
        self.seen[spec.id] = ObservedService(
            version, spec.generation, spec.revision, ServiceState.HEALTHY, port=spec.port or 4711
        )

    def change(self, service_id: str, **changes: Any) -> None:
        self.seen[service_id] = replace(self.seen[service_id], **changes)

    def remove(self, service_id: str) -> None:
        self.specs.pop(service_id, None)
        self.seen.pop(service_id, None)

    def generation(self, service_id: str) -> int:
        return self.specs[service_id].generation if service_id in self.specs else 0

    def service_ids(self) -> list[str]:
        return list(self.specs)

    def observe(self, service_id: str) -> ObservedService | None:
        return self.seen.get(service_id)

    def wait(self, service_id: str, version: int, seconds: float) -> ObservedService | None:
        return self.seen.get(service_id)

    def read_log(self, service_id: str, offset: int, limit: int) -> tuple[bytes, int]:
        log = self.logs.get(service_id, b"")
        start = max(0, len(log) + offset) if offset < 0 else offset
        piece = log[start : start + limit]
        return piece, start + len(piece)

    def metrics(self, service_id: str) -> Mapping[str, Any]:
        return {}

    def revive(self) -> None:
        self.revived += 1
