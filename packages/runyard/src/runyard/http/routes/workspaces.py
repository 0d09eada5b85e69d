from fastapi import APIRouter, Depends
from starlette.responses import Response

from runyard.http.answers import Json, Nothing
from runyard.http.auth import owner_only, workspace_access
from runyard.http.bodies import JsonBody
from runyard.http.context import Services, Use, Who
from runyard.http.fields import flag, mapping, strings, text
from runyard.model.assets import Workspace
from runyard.model.runs import RunId
from runyard.services.tokens import Role
from runyard.services.workspaces import NewWorkspace

router = APIRouter()
one = APIRouter(prefix="/workspaces/{workspace}", dependencies=[Depends(workspace_access)])


@router.get("/workspaces")
def list_workspaces(services: Use, who: Who) -> Response:
    return Json({"workspaces": _visible(services, who.run_id if who.role is not Role.OWNER else None)})


@one.get("")
def get_workspace(services: Use, workspace: str) -> Response:
    return Json(services.workspaces.get(workspace))


@one.put("")
def put_workspace(services: Use, workspace: str, body: JsonBody) -> Response:
    given = NewWorkspace(
        subscription_id=text(body, "subscription_id", ""),
        resource_group=text(body, "resource_group", ""),
        location=text(body, "location", "local"),
        friendly_name=text(body, "friendly_name", ""),
        description=text(body, "description", ""),
        tags=strings(body, "tags"),
    )
    return Json(services.workspaces.create(workspace, given, exist_ok=flag(body, "exist_ok")))


@one.delete("")
def delete_workspace(services: Use, workspace: str) -> Response:
    services.workspaces.delete(workspace)
    services.package_settings.forget(workspace)
    return Nothing()


@one.get("/experiments")
def list_experiments(services: Use, workspace: str) -> Response:
    return Json({"experiments": services.workspaces.list_experiments(workspace)})


@one.get("/experiments/{experiment}")
def get_experiment(services: Use, workspace: str, experiment: str) -> Response:
    return Json(services.workspaces.get_experiment(workspace, experiment))


@one.put("/experiments/{experiment}")
def put_experiment(services: Use, workspace: str, experiment: str) -> Response:
    return Json(services.workspaces.ensure_experiment(workspace, experiment))


@one.delete("/experiments/{experiment}", dependencies=[Depends(owner_only)])
def delete_experiment(services: Use, workspace: str, experiment: str) -> Response:
    services.runs.delete_of_experiment(workspace, experiment)
    services.workspaces.delete_experiment(workspace, experiment)
    return Nothing()


@one.patch("/experiments/{experiment}")
def patch_experiment(services: Use, workspace: str, experiment: str, body: JsonBody) -> Response:
    changes = dict(body)
    if "tags" in body:
        changes["tags"] = {key: None if value is None else str(value) for key, value in mapping(body, "tags").items()}
    if body.get("description") is not None:
        changes["description"] = text(body, "description")
    return Json(services.workspaces.change_experiment(workspace, experiment, changes))


def _visible(services: Services, run_id: str | None) -> list[Workspace]:
    """A script sees the workspace of its run."""
    known = services.workspaces.list()
    if run_id is None:
        return list(known)
    own = services.runs.get(RunId(run_id)).workspace
    return [workspace for workspace in known if workspace.name == own]
