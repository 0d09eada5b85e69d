"""The versions of an endpoint in the store: an asset each, below the endpoint's own, which says how they share."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from runyard.model.assets import Asset
from runyard.planning.web_services.endpoint import Version

VERSIONS = "versions"
"""In an endpoint's body."""
ENDPOINT = "endpoint"
"""In a version's body: the name of its endpoint."""


def version_asset_name(endpoint: str, version: str) -> str:
    """One that no user can give to a web service."""
    return f"{endpoint}/{version}"


def is_endpoint(service: Asset) -> bool:
    return VERSIONS in service.body


def is_version(service: Asset) -> bool:
    return ENDPOINT in service.body


def place_of(service: Asset) -> dict[str, str]:
    """What says in a version's body whose it is: it stays so, however the version is changed."""
    return {ENDPOINT: service.body[ENDPOINT]} if is_version(service) else {}


def versions_in(service: Asset) -> tuple[Version, ...]:
    """Empty for a web service that is no endpoint."""
    return tuple(Version(**told) for told in service.body.get(VERSIONS, ()))


def stored(versions: Sequence[Version]) -> list[dict[str, Any]]:
    return [asdict(version) for version in versions]


def orphans(services: Sequence[Asset]) -> list[Asset]:
    """Versions that no endpoint has: what is left where one was being made or removed when the service was killed."""
    known = {version.service_id for service in services for version in versions_in(service)}
    return [service for service in services if is_version(service) and service.id not in known]
