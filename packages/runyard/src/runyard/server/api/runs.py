from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Query, Request
from pydantic import Field
from starlette.responses import Response, StreamingResponse

from runyard.core.definitions.run import RunDefinition, RunError
from runyard.core.errors import InvalidArgument
from runyard.core.names import check_relative_path
from runyard.core.policy import Action
from runyard.core.records.runs import RunId, RunQuery
from runyard.runs.history.log_stream import LogFollower
from runyard.runs.history.ranks import RanksOfRun
from runyard.runs.kinds.sweep.spec import sweep_in
from runyard.runs.runs import RunChanges, RunHistory
from runyard.runs.submit import Submission
from runyard.runs.transfer.imports import Imported
from runyard.server.api.records import AssetAnswer, ListedRun, RunSerializer, WholeRun, asset_answer
from runyard.server.http.bodies import BodyPieces, run_with_body
from runyard.server.http.models import Body, ChangedTexts, Entry, Texts
from runyard.server.http.parameters import LogOffsets, QueryInt, parse_offsets, parse_rank, parse_status
from runyard.server.http.responses import Json, NoContent
from runyard.server.http.routes import Media, Routes
from runyard.server.http.streams import stream_run, wait_for_change
from runyard.server.http.worker_threads import run_in_thread
from runyard.server.services import CallerDep, ServicesDep

LONGEST_WAIT_SECONDS = 60.0
MAX_LISTED = 1000
MAX_FILTERS = 100

routes = Routes(tag="runs")
_WORKSPACE = "/workspaces/{workspace}"
_RUN = "/runs/{run_id}"
LINES = Media("application/x-ndjson", "A line for each piece of log, each status, and the end.")


def serializer_of(request: Request) -> RunSerializer:
    wire: RunSerializer = request.app.state.run_wire
    return wire


SerializerDep = Annotated[RunSerializer, Depends(serializer_of)]


class SubmissionBody(Body):
    run_id: str = Field(examples=["train_1700000000_0a1b2c3d"])
    definition: dict[str, Any] | None = Field(None, examples=[{"script": "train.py", "arguments": ["--lr", "0.1"]}])
    snapshot: list[Entry] | None = None
    """Files of the snapshot; upload their blobs first."""
    type: str | None = None
    tags: Texts = Field({}, examples=[{"stage": "draft"}])
    properties: Texts = Field({})
    display_name: str | None = None
    parent_id: str | None = None
    interactive: bool = False
    """The caller's own process is the run; nothing is launched."""
    allow_large: bool = False


class RunBody(Body):
    tags: ChangedTexts = Field({}, examples=[{"stage": "final", "draft": None}])
    properties: ChangedTexts = Field({})
    display_name: str | None = None
    description: str | None = None
    error: dict[str, Any] | None = None
    warnings: list[str] | str | None = None
    status: str | None = Field(None, examples=["Completed"])


class SnapshotBody(Body):
    snapshot: list[Entry] = Field(examples=[[["train.py", "0" * 64, 120, 420]]])


class LinkBody(Body):
    name: str = Field(examples=["features"])
    dataset_id: str


class RerunBody(Body):
    run_id: str = Field(examples=["train_1700000001_4e5f6a7b"])
    experiment: str | None = None
    display_name: str | None = None


@dataclass(frozen=True)
class RunList:
    runs: Sequence[ListedRun]
    next: int | None
    """Value of `before` for the next page; null at the end."""


@routes.get(_RUN, Action.READ_RUN, WholeRun)
def get_run(
    services: ServicesDep, shown: SerializerDep, who: CallerDep, run_id: str, metrics: bool = False
) -> Response:
    """One run, with its definition."""
    return Json(shown.whole(who, services.runs.get(who, RunId(run_id)), metrics=metrics))


@routes.patch(_RUN, Action.WRITE_RUN, WholeRun)
def patch_run(services: ServicesDep, shown: SerializerDep, who: CallerDep, run_id: str, body: RunBody) -> Response:
    """Tag a run, describe it, or end it."""
    changes = RunChanges(
        tags=body.tags,
        properties=body.properties,
        display_name=body.display_name,
        description=body.description,
        error=None if body.error is None else RunError(body.error),
        warnings=[body.warnings] if isinstance(body.warnings, str) else body.warnings,
    )
    run = services.runs.annotate(who, RunId(run_id), changes)
    if body.status is not None:
        run = services.runs.end(who, RunId(run_id), body.status)
    return Json(shown.whole(who, run))


@routes.put(f"{_RUN}/snapshot", Action.WRITE_RUN, WholeRun)
def put_snapshot(
    services: ServicesDep, shown: SerializerDep, who: CallerDep, run_id: str, body: SnapshotBody
) -> Response:
    """Add a snapshot to a run that has begun."""
    return Json(shown.whole(who, services.submissions.add_snapshot(who, RunId(run_id), body.snapshot)))


@routes.post(f"{_RUN}/outputs", Action.WRITE_RUN, AssetAnswer)
def link_output(services: ServicesDep, who: CallerDep, run_id: str, body: LinkBody) -> Response:
    """Link a dataset as an output of the run."""
    return Json(asset_answer(services.outputs.link(who, RunId(run_id), body.name, body.dataset_id)))


@routes.post(f"{_RUN}/rerun", Action.SUBMIT_RUN, WholeRun)
def rerun(services: ServicesDep, shown: SerializerDep, who: CallerDep, run_id: str, body: RerunBody) -> Response:
    """Submit a run again: the same code, definition, data and packages."""
    made = services.reruns.rerun(
        who,
        RunId(run_id),
        body.run_id,
        experiment=body.experiment or "",
        display_name=body.display_name or "",
    )
    return Json(shown.whole(who, made))


@routes.post(f"{_RUN}/cancel", Action.CANCEL_RUN, WholeRun)
def cancel(services: ServicesDep, shown: SerializerDep, who: CallerDep, run_id: str) -> Response:
    """Begin to cancel a run and its descendants."""
    return Json(shown.whole(who, services.runs.cancel(who, RunId(run_id))))


@routes.delete(_RUN, Action.DELETE_RUN)
def delete(services: ServicesDep, who: CallerDep, run_id: str) -> Response:
    """Delete an ended run and its descendants; quiet where there is none."""
    services.runs.delete(who, RunId(run_id))
    return NoContent()


@routes.get(f"{_RUN}/events", Action.READ_RUN, RunHistory)
def events(services: ServicesDep, who: CallerDep, run_id: str) -> Response:
    """Events of a run, and how long each phase took."""
    return Json(services.runs.history(who, services.runs.get(who, RunId(run_id))))


@routes.get(f"{_RUN}/ranks", Action.READ_RUN, RanksOfRun)
def ranks(services: ServicesDep, who: CallerDep, run_id: str) -> Response:
    """The processes of a run and their nodes."""
    return Json(services.ranks.of(who, RunId(run_id)))


@routes.get(f"{_RUN}/wait", Action.READ_RUN, WholeRun)
async def wait(
    services: ServicesDep,
    shown: SerializerDep,
    who: CallerDep,
    run_id: str,
    version: QueryInt = 0,
    timeout: float = 30.0,
    ended: bool = False,
) -> Response:
    """Long poll: the run, once its version is above the given one, or it has `ended`, or the time is over."""
    seconds = min(max(0.0, timeout), LONGEST_WAIT_SECONDS)
    since = None if ended else version
    return await wait_for_change(services, who, RunId(run_id), since, seconds, lambda run: Json(shown.whole(who, run)))


@routes.get(f"{_RUN}/stream", Action.READ_RUN, LINES)
async def stream(
    services: ServicesDep,
    shown: SerializerDep,
    who: CallerDep,
    run_id: str,
    log: str | None = None,
    offset: QueryInt = 0,
    tail: QueryInt = 0,
    ranks: str = "",
    offsets: LogOffsets = (),
) -> Response:
    """Follow a run until it has ended: its log, or the logs of its ranks."""

    def follower() -> LogFollower:
        if ranks:
            return services.followers.of_ranks(
                who, RunId(run_id), rank=parse_rank(ranks), offsets=parse_offsets(offsets)
            )
        path = check_relative_path(log, "log") if log else None
        return services.followers.of_run(who, RunId(run_id), log=path, offset=max(0, offset), tail=max(0, tail))

    lines = stream_run(services, shown, who, await run_in_thread(follower), RunId(run_id))
    return StreamingResponse(lines, media_type=LINES.type, headers={"Cache-Control": "no-store"})


@routes.post(f"{_WORKSPACE}/experiments/{{experiment}}/runs", Action.SUBMIT_RUN, WholeRun)
def submit(
    services: ServicesDep, shown: SerializerDep, who: CallerDep, workspace: str, experiment: str, body: SubmissionBody
) -> Response:
    """Submit a run, or begin an interactive one. Idempotent by run_id: a repeat returns the existing run."""
    definition = RunDefinition.parse(body.definition or {})
    asked = Submission(
        run_id=body.run_id,
        definition=definition,
        sweep=sweep_in(definition),
        snapshot=body.snapshot,
        type=Submission.type if body.type is None else body.type,
        tags=body.tags,
        properties=body.properties,
        display_name=body.display_name or "",
        parent_id=RunId(body.parent_id) if body.parent_id else None,
        is_interactive=body.interactive,
        allow_large=body.allow_large,
    )
    return Json(shown.whole(who, services.submissions.submit(who, workspace, experiment, asked)))


@routes.get(f"{_WORKSPACE}/runs", Action.READ_RUN, RunList)
def list_runs(
    services: ServicesDep,
    shown: SerializerDep,
    who: CallerDep,
    workspace: str,
    experiment: str | None = None,
    parent: str | None = None,
    children: bool = False,
    type: str | None = None,
    kind: str | None = None,
    created_by: str | None = None,
    status: Annotated[Sequence[str], Query()] = (),
    tag: Annotated[Sequence[str], Query()] = (),
    property: Annotated[Sequence[str], Query()] = (),
    order_by_metric: str | None = None,
    above: float | None = None,
    ascending: bool = False,
    before: QueryInt | None = None,
    limit: QueryInt = 100,
    metrics: bool = False,
) -> Response:
    """List runs of a workspace in pages, newest first or by a metric."""
    limit = max(1, min(limit, MAX_LISTED))
    words = [word for one in status for word in one.split(",")]
    check_count(words, "status")
    found = services.runs.list(
        who,
        RunQuery(
            workspace,
            experiment=experiment,
            parent_id=RunId(parent) if parent else None,
            include_children=children,
            type=services.kinds.type_of(kind) if kind else type,
            created_by=created_by,
            status=[parse_status(word) for word in words],
            tags=parse_tag_filters(tag),
            properties=parse_tag_filters(property),
            order_by_metric=order_by_metric,
            metric_above=above,
            descending=not ascending,
            before=before,
            limit=limit,
        ),
    )
    if not found:
        services.workspaces.get(who, workspace)  # NotFound where there is none
    rows = shown.listed(who, found, metrics=metrics)
    return Json(RunList(rows, found[-1].sequence if len(found) == limit else None))


def check_count(given: Sequence[str], name: str) -> None:
    if len(given) > MAX_FILTERS:
        raise InvalidArgument(f"{name} is given {len(given)} times; at most {MAX_FILTERS} are taken.")


def parse_tag_filters(given: Sequence[str]) -> dict[str, str | None]:
    """Parse tag filters: 'k' for a tag that exists, 'k=v' for its value."""
    check_count(given, "tag or property")
    wanted: dict[str, str | None] = {}
    for one in given:
        key, equals, value = one.partition("=")
        wanted[key] = value if equals else None
    return wanted


transfer_routes = Routes(tag="moving")
ARCHIVE = Media("application/x-tar", "Runs with all that belongs to them.")


@transfer_routes.get("/export", Action.MOVE_RUNS, ARCHIVE)
def export(services: ServicesDep, who: CallerDep, run: Annotated[Sequence[str], Query()] = ()) -> Response:
    """Export ended runs and their children as an archive."""
    pieces = services.run_exports.export(who, [RunId(run_id) for run_id in run])
    return StreamingResponse(pieces, media_type=ARCHIVE.type)


@transfer_routes.put("/workspaces/{workspace}/import", Action.MOVE_RUNS, Imported, takes=ARCHIVE)
async def take(request: Request, services: ServicesDep, who: CallerDep, workspace: str, pieces: BodyPieces) -> Response:
    """Import the runs of an archive. Safe to repeat."""
    return Json(await run_with_body(request, lambda: services.run_imports.take(who, workspace, pieces)))
