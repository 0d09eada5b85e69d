from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from runyard.model.assets import Asset
from runyard.planning.web_services.endpoint import Version

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


def place_of(service: Asset) -> dict[str, str]:
    """Field of a version's body that names its endpoint; empty for other web services. A change keeps it."""
    return {ENDPOINT: service.body[ENDPOINT]} if is_version(service) else {}


def versions_in(service: Asset) -> tuple[Version, ...]:
    """Empty for a web service that is not an endpoint."""
    return tuple(Version(**fields) for fields in service.body.get(VERSIONS, ()))


def stored(versions: Sequence[Version]) -> list[dict[str, Any]]:
    return [asdict(version) for version in versions]


def orphans(services: Sequence[Asset]) -> list[Asset]:
    """Versions that no endpoint lists: left when the service was killed while adding or removing one."""
    known = {version.service_id for service in services for version in versions_in(service)}
    return [service for service in services if is_version(service) and service.id not in known]
