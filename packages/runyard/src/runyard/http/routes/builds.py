from typing import Any

from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from runyard.core.definitions.environment import EnvironmentDefinition
from runyard.core.definitions.fields import Fields
from runyard.core.definitions.run import submitter_of
from runyard.core.policy import Action
from runyard.http.answers import Bytes, Json
from runyard.http.context import Use, Who
from runyard.http.models import Body, Entry
from runyard.http.numbers import Whole
from runyard.http.routing import Media, Routes
from runyard.http.stream import wait_for_change
from runyard.model.runs import RunId
from runyard.runs.kinds.build import BuildRecord, NewBuild, build_record

LONGEST_WAIT_SECONDS = 60.0
ANSWER_WITHIN_SECONDS = 1.0
"""How long to wait for a build that may be cached, so that its first answer is the end."""

routes = Routes("/workspaces/{workspace}", tag="builds")
LOG = Media("application/octet-stream", "The log from `offset` on; empty before there is one.")


class BuildBody(Body):
    environment: dict[str, Any] | None = Field(None, examples=[{"name": "train", "python": {}}])
    files: list[Entry] | None = None
    """Files of its build context; upload their blobs first."""
    submitter: dict[str, Any] | None = None
    force: bool = False


@routes.post("/builds", Action.BUILD_ENVIRONMENT, BuildRecord)
async def create_build(services: Use, who: Who, workspace: str, body: BuildBody) -> Response:
    """Build an environment without a run."""
    new = NewBuild(
        environment=EnvironmentDefinition.parse(body.environment or {}),
        files=body.files or (),
        submitter=submitter_of(Fields(body.submitter or {}, "submitter")),
        force=body.force,
    )
    begun = await run_in_threadpool(services.builds.create, who, workspace, new)
    return Json(build_record(await wait_for_change(services, who, begun.id, begun.version, ANSWER_WITHIN_SECONDS)))


@routes.get("/builds/{build_id}", Action.READ_RUN, BuildRecord)
def get_build(services: Use, who: Who, workspace: str, build_id: str) -> Response:
    """One build."""
    return Json(build_record(services.builds.get(who, workspace, build_id)))


@routes.get("/builds/{build_id}/wait", Action.READ_RUN, BuildRecord)
async def wait_for_build(
    services: Use, who: Who, workspace: str, build_id: str, version: Whole = 0, timeout: float = 30.0
) -> Response:
    """Long poll: the build, once its version is above the given one or the time is over."""
    await run_in_threadpool(services.builds.get, who, workspace, build_id)
    seconds = min(max(0.0, timeout), LONGEST_WAIT_SECONDS)
    return Json(build_record(await wait_for_change(services, who, RunId(build_id), version, seconds)))


@routes.get("/builds/{build_id}/log", Action.READ_RUN, LOG)
def get_build_log(services: Use, who: Who, workspace: str, build_id: str, offset: Whole = 0) -> Response:
    """The log of a build."""
    return Bytes(services.builds.log(who, workspace, build_id, offset))


@routes.get("/environments/{name}/image", Action.READ_ASSET, dict[str, Any])
def get_image(services: Use, who: Who, workspace: str, name: str, version: Whole | None = None) -> Response:
    """Facts of the image or folder that an environment was built into."""
    services.assets.get(who, workspace, "environments", name, version)
    return Json(services.built_environments.image(who, workspace, name, version))
