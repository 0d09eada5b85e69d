"""What a run leaves behind while it goes on: metrics, journals, logs, files."""

from fastapi import APIRouter, Depends
from starlette.responses import Response

from runyard.http.answers import Bytes, Json, Nothing, file_answer
from runyard.http.auth import run_access, same_machine
from runyard.http.bodies import JsonBody, RawBody
from runyard.http.context import Use, Who
from runyard.http.fields import as_rows, entries, flag, names, text
from runyard.http.numbers import Counting, PageSize, Whole
from runyard.http.paths import PATH
from runyard.model.runs import RunId
from runyard.services.tokens import Role

router = APIRouter(prefix="/runs/{run_id}", dependencies=[Depends(run_access)])


@router.get("/metrics")
def get_metrics(
    services: Use,
    run_id: str,
    name: str | None = None,
    children: bool = False,
    rank: Whole | None = None,
    after: Counting = 0,
    limit: PageSize | None = None,
) -> Response:
    packed = services.metrics.packed(RunId(run_id), name, children=children, rank=rank, after=after, limit=limit)
    return Bytes(packed)


@router.get("/journals")
def get_journals(services: Use, run_id: str) -> Response:
    return Json(services.journals.offsets(RunId(run_id)))


@router.post("/journals/{journal}")
def post_journal(services: Use, run_id: str, journal: str, body: RawBody, offset: Whole = 0) -> Response:
    return Json({"offset": services.journals.append(RunId(run_id), journal, offset, body)})


@router.get("/logs")
def get_logs(services: Use, who: Who, run_id: str) -> Response:
    if who.role is Role.NODE:
        return Json(services.logs.delivered(RunId(run_id)))
    return Json(services.logs.sizes(RunId(run_id)))


@router.get(f"/logs/{PATH}")
def get_log(services: Use, run_id: str, path: str, offset: Whole = 0, limit: Counting | None = None) -> Response:
    start, data = services.logs.read(RunId(run_id), path, offset, limit)
    return Bytes(data, headers={"X-Runyard-Offset": str(start + len(data))})


@router.post(f"/logs/{PATH}")
def post_log(services: Use, run_id: str, path: str, body: RawBody, offset: Whole = 0) -> Response:
    return Json({"offset": services.logs.append(RunId(run_id), path, offset, body)})


@router.get("/files")
def get_files(services: Use, run_id: str, prefix: str = "") -> Response:
    return Json({"files": services.files.list(RunId(run_id), prefix)})


@router.post("/files")
def post_files(services: Use, run_id: str, body: JsonBody) -> Response:
    services.files.put(RunId(run_id), entries(body, "entries"), fail_if_exists=flag(body, "fail_if_exists"))
    return Nothing()


@router.post("/files/adopt", dependencies=[Depends(same_machine)])
def adopt_files(services: Use, who: Who, run_id: str, body: JsonBody) -> Response:
    taken = services.files.adopt(
        RunId(run_id),
        text(body, "root"),
        names(body, "paths"),
        attempt_id=who.attempt_id,
        are_final=who.role is Role.NODE and flag(body, "are_final"),
    )
    return Json({"entries": as_rows(taken)})


@router.get(f"/files/{PATH}")
def get_file(services: Use, run_id: str, path: str) -> Response:
    return file_answer(services.files.open(RunId(run_id), path), path)
