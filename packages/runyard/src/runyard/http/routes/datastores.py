from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import Depends
from pydantic import Field
from starlette.responses import Response

from runyard.core.definitions.assets import given_texts
from runyard.core.policy import Action
from runyard.http.answers import Json
from runyard.http.auth import same_machine
from runyard.http.context import Use, Who
from runyard.http.models import Body, Object, Pair
from runyard.http.records import AssetAnswer, shown_asset
from runyard.http.routing import Routes
from runyard.services.data.datastores import NewDatastore

routes = Routes("/workspaces/{workspace}/datastores", tag="datastores")


class DatastoreBody(Body):
    name: str = Field(examples=["pictures"])
    kind: str = Field(examples=["folder"])
    settings: Object = Field({}, examples=[{"folder": "/data/pictures"}])
    credentials: Object = Field({})
    overwrite: bool = False
    create_if_not_exists: bool = False
    skip_validation: bool = False


class Adoption(Body):
    items: list[Pair] = Field(examples=[[["/data/cat.jpg", "pets/cat.jpg"]]])
    """Each [source, target]: an absolute path of the service's machine, and the path on the datastore."""
    overwrite: bool = False


@dataclass(frozen=True)
class Adopted:
    written: Sequence[str]
    skipped: Sequence[str]


@routes.post("", Action.CREATE_ASSET, AssetAnswer)
def register(services: Use, who: Who, workspace: str, body: DatastoreBody) -> Response:
    """Register a datastore. Unless told not to, checks first that it answers."""
    new = NewDatastore(
        name=body.name,
        kind=body.kind,
        settings=given_texts(body.settings),
        credentials=given_texts(body.credentials),
        overwrite=body.overwrite,
        create_if_not_exists=body.create_if_not_exists,
        skip_validation=body.skip_validation,
    )
    return Json(shown_asset(services.datastores.register(who, workspace, new)))


@routes.get("/{name}/credentials", Action.READ_CREDENTIALS, dict[str, str])
def credentials(services: Use, who: Who, workspace: str, name: str) -> Response:
    """The credentials of a datastore as they were given."""
    answer = Json(services.datastores.credentials(who, workspace, name))
    answer.headers["Cache-Control"] = "no-store"
    return answer


@routes.post("/{name}/adopt", Action.ADOPT_FILES, Adopted, dependencies=[Depends(same_machine)])
def adopt(services: Use, who: Who, workspace: str, name: str, body: Adoption) -> Response:
    """Copy files of the service's machine to a datastore."""
    return Json(Adopted(*services.store_files.adopt(who, workspace, name, body.items, overwrite=body.overwrite)))
