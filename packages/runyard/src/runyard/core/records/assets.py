from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


class AssetKind(StrEnum):
    MODEL = "models"
    ENVIRONMENT = "environments"
    DATASET = "datasets"
    DATASTORE = "datastores"
    COMPUTE = "computes"
    WEB_SERVICE = "services"
    IMAGE = "images"
    PROFILE = "profiles"
    PACKAGE = "packages"
    SECRET = "secrets"
    ENVIRONMENT_LOCK = "environment-locks"


@dataclass(frozen=True)
class Asset:
    """One version of a named thing in a workspace. `body` is the kind's own JSON object."""

    id: str
    workspace: str
    kind: AssetKind
    name: str
    version: int
    created_at: datetime
    modified_at: datetime
    body: Mapping[str, Any] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    revision: int = 1
    created_by: str = ""
    """`Principal.name` of the caller who registered it; empty for assets older than this field."""


@dataclass(frozen=True)
class Workspace:
    name: str
    id: str
    subscription_id: str
    resource_group: str
    location: str
    created_at: datetime
    friendly_name: str = ""
    description: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Experiment:
    workspace: str
    name: str
    id: str
    created_at: datetime
    description: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    archived_at: datetime | None = None
