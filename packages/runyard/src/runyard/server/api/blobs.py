from dataclasses import dataclass

from fastapi import Depends, Request
from pydantic import Field
from starlette.responses import Response, StreamingResponse

from runyard.core.policy import Action
from runyard.server.auth import require_same_machine
from runyard.server.http.archives import iterate_pack, stream_zip
from runyard.server.http.bodies import BodyPieces, run_with_body
from runyard.server.http.models import Body, Row, as_rows
from runyard.server.http.responses import Json, NoContent, file_response
from runyard.server.http.routes import OCTETS, Media, Routes
from runyard.server.services import CallerDep, ServicesDep

routes = Routes(tag="blobs")
_PACK = Media(OCTETS.type, "Blobs one after another: `SHA256 SP SIZE LF`, then the bytes.")


class Names(Body):
    sha256: list[str] = Field(examples=[["0" * 64]])


class Paths(Body):
    paths: list[str] = Field(examples=[["/home/ada/train.csv"]])


@dataclass(frozen=True)
class MissingBlobs:
    missing: list[str]


@dataclass(frozen=True)
class StoredBlob:
    size: int


@dataclass(frozen=True)
class AdoptedBlobs:
    entries: list[tuple[str, int]]
    """(sha256, size) in the order of the paths."""


@dataclass(frozen=True)
class SnapshotAnswer:
    id: str
    entries: list[Row]
    """Each [path, sha256, size, mode]."""


@routes.post("/blobs/missing", Action.WRITE_BLOB, MissingBlobs)
def missing(services: ServicesDep, who: CallerDep, body: Names) -> Response:
    """Which of these blobs the caller must upload."""
    return Json(MissingBlobs(services.blobs.missing(who, body.sha256)))


@routes.post("/blobs/pack", Action.WRITE_BLOB, None, takes=_PACK)
async def put_pack(services: ServicesDep, who: CallerDep, request: Request, pieces: BodyPieces) -> Response:
    """Store many small blobs."""
    await run_with_body(request, lambda: services.blobs.put_many(who, iterate_pack(pieces)))
    return NoContent()


@routes.post("/blobs/adopt", Action.ADOPT_BLOB, AdoptedBlobs, dependencies=[Depends(require_same_machine)])
def adopt(services: ServicesDep, who: CallerDep, body: Paths) -> Response:
    """Store files of the service's machine."""
    return Json(AdoptedBlobs(services.blobs.adopt(who, body.paths)))


@routes.put("/blobs/{sha256}", Action.WRITE_BLOB, StoredBlob, takes=OCTETS)
async def put_blob(
    services: ServicesDep, who: CallerDep, request: Request, sha256: str, pieces: BodyPieces
) -> Response:
    """Store a blob under its hash."""
    return Json(StoredBlob(await run_with_body(request, lambda: services.blobs.put(who, sha256, pieces))))


@routes.get("/blobs/{sha256}", Action.READ_BLOB, OCTETS)
def get_blob(services: ServicesDep, who: CallerDep, sha256: str) -> Response:
    """The bytes of a blob."""
    return file_response(services.blobs.open(who, sha256))


@routes.get("/snapshots/{snapshot_id}", Action.READ_SNAPSHOT, SnapshotAnswer)
def get_snapshot(services: ServicesDep, who: CallerDep, snapshot_id: str) -> Response:
    """The files of a snapshot."""
    snapshot = services.snapshots.get(who, snapshot_id)
    return Json(SnapshotAnswer(snapshot.id, as_rows(snapshot.entries)))


@routes.get("/snapshots/{snapshot_id}/zip", Action.READ_SNAPSHOT, Media("application/zip", "The files of a snapshot."))
def get_snapshot_zip(services: ServicesDep, who: CallerDep, snapshot_id: str) -> Response:
    """The files of a snapshot as a zip."""
    return StreamingResponse(stream_zip(services.snapshots.folder(who, snapshot_id)), media_type="application/zip")
