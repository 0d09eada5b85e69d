"""Versions of an endpoint: how they share its requests, and how the asset store keeps them.

Each version is an asset of its own. The body of the endpoint's asset lists the versions with their shares.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from runyard.core.errors import AlreadyExists, Conflict, InvalidArgument, NotFound
from runyard.core.records.assets import Asset
from runyard.core.records.web_services import VersionShare

WHOLE = 100
MOST_VERSIONS = 20
_NAME = re.compile(r"[a-z]([a-z0-9-]{0,30}[a-z0-9])?")
_OF_ENDPOINT = frozenset(
    {
        "auth_enabled",
        "token_auth_enabled",
        "primary_key",
        "secondary_key",
        "enable_app_insights",
        "namespace",
        "compute_target_name",
        "port",
    }
)
SPLIT_PARAMETERS = ("traffic_percentile", "is_default", "is_control_version_type")
"""Parameters of a version that change its share of the requests and need no new workers."""


@dataclass(frozen=True)
class EndpointVersion:
    name: str
    service_id: str
    traffic_percentile: int = 0
    """Percentage given by the user; the default version also gets what is left over."""
    is_default: bool = False
    is_control: bool = False


@dataclass(frozen=True)
class VersionChange:
    """Change of one version; None leaves a field as it is."""

    traffic_percentile: int | None = None
    is_default: bool | None = None
    is_control: bool | None = None


def version_change(config: Mapping[str, Any]) -> VersionChange:
    """Read the change from checked parameters."""
    return VersionChange(*(config.get(name) for name in SPLIT_PARAMETERS))


def split_config(config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split a deploy_configuration into the endpoint's part and its first version's part."""
    others = {*_OF_ENDPOINT, *SPLIT_PARAMETERS, "version_name"}
    return (
        {name: value for name, value in config.items() if name in _OF_ENDPOINT},
        {name: value for name, value in config.items() if name not in others},
    )


def version_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Config of a version. Raises InvalidArgument for a parameter of the whole endpoint."""
    for name in config:
        if name in _OF_ENDPOINT:
            raise InvalidArgument(f"{name} is not a version's, but the endpoint's.", hint="Change it with update().")
    return split_config(config)[1]


def check_version_name(name: str) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidArgument(
            f"version_name {ascii(name)[:80]} is not valid: 1 to 32 lower case letters, digits or '-', the first a "
            "letter and the last no '-'."
        )
    return name


def with_version(
    versions: Sequence[EndpointVersion], name: str, service_id: str, change: VersionChange
) -> tuple[EndpointVersion, ...]:
    """Add a version; the first is always the default and the control version. Raises AlreadyExists, Conflict."""
    if any(one.name == name for one in versions):
        raise AlreadyExists(
            f"There is a version {name!r} already.", hint="Change it with update_version(), or choose another name."
        )
    if len(versions) >= MOST_VERSIONS:
        raise Conflict(f"An endpoint has at most {MOST_VERSIONS} versions.", hint="Delete one with delete_version().")
    is_first = not versions
    added = EndpointVersion(name, service_id, is_default=is_first, is_control=is_first)
    if is_first:
        change = replace(change, is_default=None, is_control=None)
    return with_change([*versions, added], name, change)


def with_change(versions: Sequence[EndpointVersion], name: str, change: VersionChange) -> tuple[EndpointVersion, ...]:
    """Raises InvalidArgument when the percentiles exceed 100, or there would be no default or control version."""
    found = find_version(versions, name)
    for kind, is_now, is_asked in (
        ("default", found.is_default, change.is_default),
        ("control", found.is_control, change.is_control),
    ):
        if is_now and is_asked is False:
            raise InvalidArgument(
                f"{name!r} is the {kind} version, and there must be one.", hint=f"Make another the {kind} version."
            )
    changed = tuple(_changed(one, one is found, change) for one in versions)
    total = sum(one.traffic_percentile for one in changed)
    if total > WHOLE:
        parts = " + ".join(f"{one.name}: {one.traffic_percentile}" for one in changed)
        raise InvalidArgument(
            f"traffic_percentile of all versions together must be at most {WHOLE}, and would be {total} ({parts}).",
            hint="Lower that of another version first.",
        )
    return changed


def without_version(versions: Sequence[EndpointVersion], name: str) -> tuple[EndpointVersion, ...]:
    """Remove a version; its share goes to the default version. Raises Conflict for the default version."""
    found = find_version(versions, name)
    if found.is_default:
        raise Conflict(
            f"{name!r} is the default version of the endpoint, so it stays.",
            hint="Make another the default with update_version(..., is_default=True), or delete the endpoint.",
        )
    left = tuple(one for one in versions if one is not found)
    return tuple(replace(one, is_control=one.is_control or (found.is_control and one.is_default)) for one in left)


def find_version(versions: Sequence[EndpointVersion], name: str) -> EndpointVersion:
    for one in versions:
        if one.name == name:
            return one
    known = ", ".join(repr(one.name) for one in versions)
    raise NotFound(f"The endpoint has no version {ascii(name)[:80]}. It has {known}.")


def shares(versions: Sequence[EndpointVersion]) -> tuple[VersionShare, ...]:
    rest = WHOLE - sum(one.traffic_percentile for one in versions)
    return tuple(
        VersionShare(
            one.name,
            one.service_id,
            one.traffic_percentile + (rest if one.is_default else 0),
            is_default=one.is_default,
        )
        for one in versions
    )


def _changed(version: EndpointVersion, is_it: bool, change: VersionChange) -> EndpointVersion:
    if not is_it:
        return replace(
            version,
            is_default=version.is_default and not change.is_default,
            is_control=version.is_control and not change.is_control,
        )
    share = version.traffic_percentile if change.traffic_percentile is None else change.traffic_percentile
    return replace(
        version,
        traffic_percentile=share,
        is_default=version.is_default or bool(change.is_default),
        is_control=version.is_control or bool(change.is_control),
    )


VERSIONS = "versions"
"""Key in the body of an endpoint."""
ENDPOINT = "endpoint"
"""Key in the body of a version: the name of its endpoint."""


def version_asset_name(endpoint: str, version: str) -> str:
    """Asset name of a version; with '/', so that it cannot be the name of a web service."""
    return f"{endpoint}/{version}"


def is_endpoint(service: Asset) -> bool:
    return VERSIONS in service.body


def is_version(service: Asset) -> bool:
    return ENDPOINT in service.body


def endpoint_field(service: Asset) -> dict[str, str]:
    """Field of a version's body that names its endpoint; empty for other web services. A change keeps it."""
    return {ENDPOINT: service.body[ENDPOINT]} if is_version(service) else {}


def versions_in(service: Asset) -> tuple[EndpointVersion, ...]:
    """Empty for a web service that is not an endpoint."""
    return tuple(EndpointVersion(**fields) for fields in service.body.get(VERSIONS, ()))


def versions_to_json(versions: Sequence[EndpointVersion]) -> list[dict[str, Any]]:
    return [asdict(version) for version in versions]


def orphaned_versions(services: Sequence[Asset]) -> list[Asset]:
    """Versions that no endpoint lists: left when the service was killed while adding or removing one."""
    known = {version.service_id for service in services for version in versions_in(service)}
    return [service for service in services if is_version(service) and service.id not in known]
