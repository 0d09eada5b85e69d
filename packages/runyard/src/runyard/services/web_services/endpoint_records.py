from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from runyard.model.web_services import ServiceState, ServiceTrouble
from runyard.planning.web_services.endpoint import Version
from runyard.services.web_services.shown import EndpointRecord, ServiceRecord, VersionRecord

R = TypeVar("R", bound=ServiceRecord)


def version_record(version: Version, share: int, record: ServiceRecord) -> VersionRecord:
    return _extended(
        VersionRecord,
        replace(record, name=version.name),
        traffic_percentile=version.traffic_percentile,
        share=share,
        is_default=version.is_default,
        version_type="Control" if version.is_control else "Treatment",
    )


def together(own: ServiceRecord, versions: Mapping[str, VersionRecord]) -> EndpointRecord:
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


def _error(parts: Mapping[str, ServiceRecord]) -> ServiceTrouble | None:
    for name, part in parts.items():
        if part.error is not None:
            return replace(part.error, problem=f"Version {name!r}: {part.error.problem}") if name else part.error
    return None
