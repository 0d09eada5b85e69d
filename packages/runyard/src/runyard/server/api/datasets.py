import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import Request
from pydantic import Field, TypeAdapter, ValidationError
from starlette.responses import Response

from runyard.core.data_json import data_to_json
from runyard.core.definitions.dataset import DatasetDefinition
from runyard.core.errors import InvalidArgument
from runyard.core.policy import Action
from runyard.core.principal import Role
from runyard.data.datasets.dataset_registry import NewDataset
from runyard.data.datasets.lineage import LineageModel, LineageRun
from runyard.data.datasets.steps import FoundFile
from runyard.server.api.records import AssetAnswer, DataWire, asset_answer
from runyard.server.auth import is_remote
from runyard.server.http.models import MAX_INTEGER, Body, Object, Texts
from runyard.server.http.parameters import PATH
from runyard.server.http.responses import Json, file_response, not_cached
from runyard.server.http.routes import OCTETS, Routes
from runyard.server.services import CallerDep, ServicesDep

NETWORK_HEADER = "X-Runyard-Network"
routes = Routes("/workspaces/{workspace}/datasets", tag="datasets")
_SOURCES = {"type": "file", "sources": [{"datastore": "workspaceblobstore", "path": "pets/*.jpg"}]}


class DatasetBody(Body):
    name: str | None = Field(None, examples=["pets"])
    """None for a dataset that is saved and not registered."""
    body: Object = Field({}, examples=[_SOURCES])
    tags: Texts = Field({})
    is_validated: bool = Field(True, alias="validate")
    """Whether to list its files and pin their present state."""
    create_new_version: bool = False
    variables: Texts = Field({})
    """Proxies and certificates of the client."""


class Question(Body):
    id: str | None = None
    """Id of a saved dataset; without it `body` is resolved."""
    body: Object = Field({}, examples=[_SOURCES])
    variables: Texts = Field({})
    limit: Annotated[int, Field(ge=1, le=MAX_INTEGER)] | None = None


@dataclass(frozen=True)
class DatasetFile:
    path: str
    store: str
    key: str
    size: int | None
    etag: str
    modified_at: datetime | None


@dataclass(frozen=True)
class ResolvedFiles:
    files: list[DatasetFile]
    is_one_file: bool
    changes: list[str]
    """What changed since the version was made, in words."""


@dataclass(frozen=True)
class DatasetLineage:
    runs: Sequence[LineageRun]
    models: Sequence[LineageModel]


@routes.post("", Action.CREATE_ASSET, AssetAnswer)
def save(services: ServicesDep, who: CallerDep, workspace: str, body: DatasetBody) -> Response:
    """Save a dataset, with or without a name. The same definition of the same data makes no new version."""
    new = NewDataset(
        name=body.name or "",
        definition=DatasetDefinition.parse(body.body),
        tags=body.tags,
        validate=body.is_validated,
        create_new_version=body.create_new_version,
        variables=body.variables,
    )
    return Json(asset_answer(services.datasets.save(who, workspace, new)))


@routes.post("/resolve", Action.READ_DATASET, ResolvedFiles)
def resolve(services: ServicesDep, who: CallerDep, workspace: str, body: Question) -> Response:
    """List the files of a saved dataset or of a definition."""
    if body.id is None:
        definition = DatasetDefinition.parse(body.body)
        resolved = services.datasets.resolve(who, workspace, definition, body.variables, body.limit)
        changes: Sequence[str] = ()
    else:
        dataset = services.lineage.record_lookup(who, services.datasets.get(who, workspace, body.id))
        seen = services.datasets.resolve_saved_now(who, dataset, body.variables)
        resolved, changes = seen.resolved, seen.changes
    return Json(ResolvedFiles([_dataset_file(file) for file in resolved.files], resolved.is_one_file, list(changes)))


@routes.get(f"/by-id/{{dataset_id}}/files/{PATH}", Action.READ_DATASET, OCTETS)
def get_file(
    services: ServicesDep, who: CallerDep, request: Request, workspace: str, dataset_id: str, path: str
) -> Response:
    """One file of a saved dataset."""
    content = services.datasets.open(who, workspace, dataset_id, path, _network(request))
    if who.role is Role.RUN:
        services.lineage.record_lookup(who, services.datasets.get(who, workspace, dataset_id))
    return file_response(content, path, range=request.headers.get("range"))


@routes.get("/by-id/{dataset_id}/access", Action.OPEN_DATASET, DataWire)
def access(
    services: ServicesDep, who: CallerDep, request: Request, workspace: str, dataset_id: str, apart: bool = False
) -> Response:
    """How to reach the files of a saved dataset. `apart`: for a client that shares no disk with the service."""
    is_apart = apart or is_remote(request)
    return not_cached(
        Json(data_to_json(services.attempt_data.of_dataset(who, workspace, dataset_id, is_apart=is_apart)))
    )


@routes.get("/by-id/{dataset_id}/lineage", Action.READ_ASSET, DatasetLineage)
def lineage(services: ServicesDep, who: CallerDep, workspace: str, dataset_id: str) -> Response:
    """The runs that read or wrote a dataset, and the models registered from them."""
    dataset = services.datasets.get(who, workspace, dataset_id)
    return Json(DatasetLineage(*services.lineage.of_dataset(who, dataset)))


def _network(request: Request) -> dict[str, str]:
    """Proxies and certificates of the client."""
    try:
        given = json.loads(request.headers.get(NETWORK_HEADER, "{}"))
        return TypeAdapter(Texts).validate_python(given)
    except (ValueError, RecursionError, ValidationError):
        raise InvalidArgument(f"{NETWORK_HEADER} must be an object of strings, in JSON.") from None


def _dataset_file(file: FoundFile) -> DatasetFile:
    source = file.source
    return DatasetFile(source.path, source.store, source.key, source.size, source.etag, file.stored.modified_at)
