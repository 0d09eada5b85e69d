import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import Request
from pydantic import Field, TypeAdapter, ValidationError
from starlette.responses import Response

from runyard.core.definitions.dataset import DatasetDefinition
from runyard.core.policy import Action
from runyard.core.principal import Role
from runyard.errors import InvalidArgument
from runyard.http.answers import Json, file_answer
from runyard.http.auth import is_from_outside
from runyard.http.context import Use, Who
from runyard.http.data_records import DataWire
from runyard.http.models import MOST, Body, Object, Texts
from runyard.http.paths import PATH
from runyard.http.records import AssetAnswer, shown_asset
from runyard.http.routing import OCTETS, Routes
from runyard.planning.data_json import data_to_json
from runyard.planning.data_steps import FoundFile
from runyard.services.data.datasets import NewDataset
from runyard.services.data.lineage import ModelShown, RunShown

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
    limit: Annotated[int, Field(ge=1, le=MOST)] | None = None


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
    runs: Sequence[RunShown]
    models: Sequence[ModelShown]


@routes.post("", Action.CREATE_ASSET, AssetAnswer)
def save(services: Use, who: Who, workspace: str, body: DatasetBody) -> Response:
    """Save a dataset, with or without a name. The same definition of the same data makes no new version."""
    new = NewDataset(
        name=body.name or "",
        definition=DatasetDefinition.parse(body.body),
        tags=body.tags,
        validate=body.is_validated,
        create_new_version=body.create_new_version,
        variables=body.variables,
    )
    return Json(shown_asset(services.datasets.save(who, workspace, new)))


@routes.post("/resolve", Action.READ_DATASET, ResolvedFiles)
def resolve(services: Use, who: Who, workspace: str, body: Question) -> Response:
    """List the files of a saved dataset or of a definition."""
    if body.id is None:
        definition = DatasetDefinition.parse(body.body)
        resolved = services.datasets.resolve(who, workspace, definition, body.variables, body.limit)
        changes: Sequence[str] = ()
    else:
        dataset = services.lineage.looked_up(who, services.datasets.get(who, workspace, body.id))
        seen = services.datasets.resolve_saved_now(who, dataset, body.variables)
        resolved, changes = seen.resolved, seen.changes
    return Json(ResolvedFiles([_shown(file) for file in resolved.files], resolved.is_one_file, list(changes)))


@routes.get(f"/by-id/{{dataset_id}}/files/{PATH}", Action.READ_DATASET, OCTETS)
def get_file(services: Use, who: Who, request: Request, workspace: str, dataset_id: str, path: str) -> Response:
    """One file of a saved dataset."""
    content = services.datasets.open(who, workspace, dataset_id, path, _network(request))
    if who.role is Role.RUN:
        services.lineage.looked_up(who, services.datasets.get(who, workspace, dataset_id))
    return file_answer(content, path, range=request.headers.get("range"))


@routes.get("/by-id/{dataset_id}/access", Action.OPEN_DATASET, DataWire)
def access(services: Use, who: Who, request: Request, workspace: str, dataset_id: str, apart: bool = False) -> Response:
    """How to reach the files of a saved dataset. `apart`: for a client that shares no disk with the service."""
    is_apart = apart or is_from_outside(request)
    answer = Json(data_to_json(services.attempt_data.of_dataset(who, workspace, dataset_id, is_apart=is_apart)))
    answer.headers["Cache-Control"] = "no-store"
    return answer


@routes.get("/by-id/{dataset_id}/lineage", Action.READ_ASSET, DatasetLineage)
def lineage(services: Use, who: Who, workspace: str, dataset_id: str) -> Response:
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


def _shown(file: FoundFile) -> DatasetFile:
    source = file.source
    return DatasetFile(source.path, source.store, source.key, source.size, source.etag, file.stored.modified_at)
