"""What runs record: metrics, journals, logs and files."""

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import Depends
from pydantic import Field
from starlette.responses import Response

from runyard.core.policy import Action
from runyard.core.records.runs import RunId
from runyard.runs.history.files import ListedFile
from runyard.server.auth import require_same_machine
from runyard.server.http.bodies import RawBody
from runyard.server.http.models import Body, Entry, Row, as_rows
from runyard.server.http.parameters import PATH, PageSize, QueryCount, QueryInt
from runyard.server.http.responses import Bytes, Json, NoContent, file_response
from runyard.server.http.routes import OCTETS, Media, Routes
from runyard.server.services import CallerDep, ServicesDep

routes = Routes("/runs/{run_id}", tag="history")
SERIES = Media("application/octet-stream", "A JSON line that says what follows, then the values of each metric.")
LINES = Media("application/octet-stream", "Lines of a journal, whole ones.")
TEXT = Media("application/octet-stream", "A stretch of the log.")


@dataclass(frozen=True)
class Stored:
    offset: int
    """Number of bytes stored so far."""


@dataclass(frozen=True)
class RunFileList:
    files: Sequence[ListedFile]


@dataclass(frozen=True)
class FilesTaken:
    entries: Sequence[Row]
    """Each [path, sha256, size, mode]."""


class NewFiles(Body):
    entries: list[Entry] = Field(examples=[[["outputs/model.pt", "9f86d0...", 1024, 420]]])
    fail_if_exists: bool = False


class FilesHere(Body):
    root: str = Field(examples=["/home/me/project/outputs"])
    paths: list[str] = Field(examples=[["model.pt"]])
    are_final: bool = False


@routes.get("/metrics", Action.READ_RUN, SERIES)
def get_metrics(
    services: ServicesDep,
    who: CallerDep,
    run_id: str,
    name: str | None = None,
    children: bool = False,
    rank: QueryInt | None = None,
    after: QueryCount = 0,
    limit: PageSize | None = None,
) -> Response:
    """The metrics of a run: all, or a page of `limit`; `after` is the `next` of the page before."""
    packed = services.metrics.packed(who, RunId(run_id), name, children=children, rank=rank, after=after, limit=limit)
    return Bytes(packed)


@routes.get("/journals", Action.SEE_DELIVERED, dict[str, int])
def get_journals(services: ServicesDep, who: CallerDep, run_id: str) -> Response:
    """Number of stored bytes of each journal."""
    return Json(services.journals.offsets(who, RunId(run_id)))


@routes.post("/journals/{journal}", Action.DELIVER_RUN, Stored, takes=LINES)
def post_journal(
    services: ServicesDep, who: CallerDep, run_id: str, journal: str, body: RawBody, offset: QueryInt = 0
) -> Response:
    """Store lines of a journal. Safe to repeat; a gap is refused with the offset to continue from."""
    return Json(Stored(services.journals.append(who, RunId(run_id), journal, offset, body)))


@routes.get("/logs", Action.SEE_DELIVERED, dict[str, int])
def get_logs(services: ServicesDep, who: CallerDep, run_id: str) -> Response:
    """Size of each log. A node sees how much of it the current attempt has sent."""
    return Json(services.logs.sizes(who, RunId(run_id)))


@routes.get(f"/logs/{PATH}", Action.SEE_DELIVERED, OCTETS)
def get_log(
    services: ServicesDep, who: CallerDep, run_id: str, path: str, offset: QueryInt = 0, limit: QueryCount | None = None
) -> Response:
    """A log from `offset` on; a negative one counts from the end. X-Runyard-Offset is where to continue."""
    start, data = services.logs.read(who, RunId(run_id), path, offset, limit)
    return Bytes(data, headers={"X-Runyard-Offset": str(start + len(data))})


@routes.post(f"/logs/{PATH}", Action.DELIVER_RUN, Stored, takes=TEXT)
def post_log(
    services: ServicesDep, who: CallerDep, run_id: str, path: str, body: RawBody, offset: QueryInt = 0
) -> Response:
    """Append to a log. Safe to repeat; a gap is refused."""
    return Json(Stored(services.logs.append(who, RunId(run_id), path, offset, body)))


@routes.get("/files", Action.SEE_DELIVERED, RunFileList)
def get_files(services: ServicesDep, who: CallerDep, run_id: str, prefix: str = "") -> Response:
    """The files of a run, its logs among them, by path."""
    return Json(RunFileList(services.files.list(who, RunId(run_id), prefix)))


@routes.post("/files", Action.DELIVER_RUN, None)
def post_files(services: ServicesDep, who: CallerDep, run_id: str, body: NewFiles) -> Response:
    """Add or replace files of a run. Upload their blobs first."""
    services.files.put(who, RunId(run_id), body.entries, fail_if_exists=body.fail_if_exists)
    return NoContent()


@routes.post("/files/adopt", Action.DELIVER_RUN, FilesTaken, dependencies=[Depends(require_same_machine)])
def adopt_files(services: ServicesDep, who: CallerDep, run_id: str, body: FilesHere) -> Response:
    """Add files that lie on the service's disk. Returns those that existed."""
    taken = services.files.adopt(who, RunId(run_id), body.root, body.paths, are_final=body.are_final)
    return Json(FilesTaken(as_rows(taken)))


@routes.get(f"/files/{PATH}", Action.SEE_DELIVERED, OCTETS)
def get_file(services: ServicesDep, who: CallerDep, run_id: str, path: str) -> Response:
    """One file of a run."""
    return file_response(services.files.open(who, RunId(run_id), path), path)
