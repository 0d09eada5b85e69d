from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from runyard.errors import InvalidArgument, Unauthorized
from runyard.http.answers import Json, Nothing
from runyard.http.auth import run_access, workspace_access
from runyard.http.bodies import JsonBody
from runyard.http.context import Use, Who
from runyard.http.fields import entries, flag, mapping, strings, text
from runyard.http.numbers import Whole
from runyard.http.ranks import Offsets, offsets_of, wanted_rank
from runyard.http.records import RunWire, shown_asset
from runyard.http.statuses import status_of
from runyard.http.stream import follow, wait_for_change
from runyard.model.names import check_relative_path
from runyard.model.runs import RunId, RunQuery
from runyard.services.following import Follower, Follows, RankFollower
from runyard.services.submission import Submission
from runyard.services.tokens import Role

LONGEST_WAIT_SECONDS = 60.0
MOST_LISTED = 1000
MOST_FILTERS = 100

listing = APIRouter(prefix="/workspaces/{workspace}", dependencies=[Depends(workspace_access)])
router = APIRouter(prefix="/runs/{run_id}", dependencies=[Depends(run_access)])


async def wire_of(request: Request) -> RunWire:
    state = request.app.state
    wire: RunWire = state.run_wire if request.state.caller.role is Role.OWNER else state.run_wire_without_keys
    return wire


Shown = Annotated[RunWire, Depends(wire_of)]


@listing.post("/experiments/{experiment}/runs")
def submit(services: Use, shown: Shown, who: Who, workspace: str, experiment: str, body: JsonBody) -> Response:
    parent_id = text(body, "parent_id", "")
    asked = Submission(
        run_id=text(body, "run_id"),
        definition=mapping(body, "definition"),
        snapshot=None if body.get("snapshot") is None else entries(body, "snapshot"),
        type=text(body, "type", "azureml.scriptrun"),
        tags=strings(body, "tags"),
        properties=strings(body, "properties"),
        display_name=text(body, "display_name", ""),
        parent_id=RunId(parent_id) if parent_id else None,
        is_interactive=flag(body, "interactive"),
        allow_large=flag(body, "allow_large"),
    )
    if who.role is Role.NODE:
        raise Unauthorized("A node's token cannot submit runs.")
    return Json(shown.whole(services.submissions.submit(workspace, experiment, asked)))


@listing.get("/runs")
def list_runs(
    services: Use,
    shown: Shown,
    workspace: str,
    experiment: str | None = None,
    parent: str | None = None,
    children: bool = False,
    type: str | None = None,
    status: Annotated[Sequence[str], Query()] = (),
    tag: Annotated[Sequence[str], Query()] = (),
    property: Annotated[Sequence[str], Query()] = (),
    order_by_metric: str | None = None,
    above: float | None = None,
    ascending: bool = False,
    before: Whole | None = None,
    limit: Whole = 100,
    metrics: bool = False,
) -> Response:
    limit = max(1, min(limit, MOST_LISTED))
    words = [word for one in status for word in one.split(",")]
    check_count(words, "status")
    found = services.runs.list(
        RunQuery(
            workspace,
            experiment=experiment,
            parent_id=RunId(parent) if parent else None,
            include_children=children,
            type=type,
            status=[status_of(word) for word in words],
            tags=wanted_tags(tag),
            properties=wanted_tags(property),
            order_by_metric=order_by_metric,
            metric_above=above,
            descending=not ascending,
            before=before,
            limit=limit,
        )
    )
    if not found:
        services.workspaces.get(workspace)  # NotFound where there is none
    rows = [shown.short(run) for run in found]
    if metrics:
        last = shown.last_values(list(found))
        rows = [{**row, "metrics": last[row["id"]]} for row in rows]
    return Json({"runs": rows, "next": found[-1].sequence if len(found) == limit else None})


@router.get("")
def get_run(services: Use, shown: Shown, run_id: str, metrics: bool = False) -> Response:
    return Json(shown.whole(services.runs.get(RunId(run_id)), metrics=metrics))


@router.patch("")
def patch_run(services: Use, shown: Shown, run_id: str, body: JsonBody) -> Response:
    run = services.runs.annotate(RunId(run_id), {name: value for name, value in body.items() if name != "status"})
    if body.get("status") is not None:
        run = services.runs.end(RunId(run_id), text(body, "status"))
    return Json(shown.whole(run))


@router.put("/snapshot")
def put_snapshot(services: Use, shown: Shown, run_id: str, body: JsonBody) -> Response:
    return Json(shown.whole(services.submissions.add_snapshot(RunId(run_id), entries(body, "snapshot"))))


@router.post("/outputs")
def link_output(services: Use, run_id: str, body: JsonBody) -> Response:
    return Json(shown_asset(services.outputs.link(RunId(run_id), text(body, "name"), text(body, "dataset_id"))))


@router.post("/rerun")
def rerun(services: Use, shown: Shown, who: Who, run_id: str, body: JsonBody) -> Response:
    if who.role is Role.NODE:
        raise Unauthorized("A node's token cannot submit runs.")
    made = services.reruns.rerun(
        RunId(run_id),
        text(body, "run_id"),
        experiment=text(body, "experiment", ""),
        display_name=text(body, "display_name", ""),
    )
    return Json(shown.whole(made))


@router.post("/cancel")
def cancel(services: Use, shown: Shown, run_id: str) -> Response:
    return Json(shown.whole(services.runs.cancel(RunId(run_id))))


@router.delete("")
def delete(services: Use, run_id: str) -> Response:
    services.runs.delete(RunId(run_id))
    return Nothing()


@router.get("/events")
def events(services: Use, run_id: str) -> Response:
    return Json(services.runs.history(services.runs.get(RunId(run_id))))


@router.get("/ranks")
def ranks(services: Use, run_id: str) -> Response:
    return Json(services.ranks.of(RunId(run_id)))


@router.get("/wait")
async def wait(
    services: Use, shown: Shown, run_id: str, version: Whole = 0, timeout: float = 30.0, ended: bool = False
) -> Response:
    seconds = min(max(0.0, timeout), LONGEST_WAIT_SECONDS)
    run = await wait_for_change(services, RunId(run_id), None if ended else version, seconds)
    return await run_in_threadpool(lambda: Json(shown.whole(run)))


@router.get("/stream")
async def stream(
    services: Use,
    shown: Shown,
    run_id: str,
    log: str | None = None,
    offset: Whole = 0,
    tail: Whole = 0,
    ranks: str = "",
    offsets: Offsets = (),
) -> Response:
    services.run_store.get(RunId(run_id))
    path = check_relative_path(log, "log") if log else None
    stores = (services.run_store, services.log_store, RunId(run_id))
    follower: Follows = (
        RankFollower(*stores, rank=wanted_rank(ranks), offsets=offsets_of(offsets))
        if ranks
        else Follower(*stores, log=path, offset=max(0, offset), tail=max(0, tail))
    )
    lines = follow(services, shown, follower, RunId(run_id))
    return StreamingResponse(lines, media_type="application/x-ndjson", headers={"Cache-Control": "no-store"})


def check_count(given: Sequence[str], name: str) -> None:
    if len(given) > MOST_FILTERS:
        raise InvalidArgument(f"{name} is given {len(given)} times; at most {MOST_FILTERS} are taken.")


def wanted_tags(given: Sequence[str]) -> dict[str, str | None]:
    """'k' asks that a tag is there, 'k=v' that it has that value."""
    check_count(given, "tag or property")
    wanted: dict[str, str | None] = {}
    for one in given:
        key, equals, value = one.partition("=")
        wanted[key] = value if equals else None
    return wanted
