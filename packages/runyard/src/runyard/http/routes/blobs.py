from dataclasses import dataclass

from fastapi import Depends, Request
from pydantic import Field
from starlette.responses import Response, StreamingResponse

from runyard.core.policy import Action
from runyard.http.answers import Json, Nothing, file_answer
from runyard.http.auth import same_machine
from runyard.http.bodies import BodyPieces, take_in
from runyard.http.context import Use, Who
from runyard.http.models import Body, Row, as_rows
from runyard.http.packs import unpacked
from runyard.http.routing import OCTETS, Media, Routes
from runyard.http.zips import zipped

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
def missing(services: Use, who: Who, body: Names) -> Response:
    """Which of these blobs the caller must upload."""
    return Json(MissingBlobs(services.blobs.missing(who, body.sha256)))


@routes.post("/blobs/pack", Action.WRITE_BLOB, None, takes=_PACK)
async def put_pack(services: Use, who: Who, request: Request, pieces: BodyPieces) -> Response:
    """Store many small blobs."""
    await take_in(request, lambda: services.blobs.put_many(who, unpacked(pieces)))
    return Nothing()


@routes.post("/blobs/adopt", Action.ADOPT_BLOB, AdoptedBlobs, dependencies=[Depends(same_machine)])
def adopt(services: Use, who: Who, body: Paths) -> Response:
    """Store files of the service's machine."""
    return Json(AdoptedBlobs(services.blobs.adopt(who, body.paths)))


@routes.put("/blobs/{sha256}", Action.WRITE_BLOB, StoredBlob, takes=OCTETS)
async def put_blob(services: Use, who: Who, request: Request, sha256: str, pieces: BodyPieces) -> Response:
    """Store a blob under its hash."""
    return Json(StoredBlob(await take_in(request, lambda: services.blobs.put(who, sha256, pieces))))


@routes.get("/blobs/{sha256}", Action.READ_BLOB, OCTETS)
def get_blob(services: Use, who: Who, sha256: str) -> Response:
    """The bytes of a blob."""
    return file_answer(services.blobs.open(who, sha256))


@routes.get("/snapshots/{snapshot_id}", Action.READ_SNAPSHOT, SnapshotAnswer)
def get_snapshot(services: Use, who: Who, snapshot_id: str) -> Response:
    """The files of a snapshot."""
    snapshot = services.snapshots.get(who, snapshot_id)
    return Json(SnapshotAnswer(snapshot.id, as_rows(snapshot.entries)))


@routes.get("/snapshots/{snapshot_id}/zip", Action.READ_SNAPSHOT, Media("application/zip", "The files of a snapshot."))
def get_snapshot_zip(services: Use, who: Who, snapshot_id: str) -> Response:
    """The files of a snapshot as a zip."""
    return StreamingResponse(zipped(services.snapshots.folder(who, snapshot_id)), media_type="application/zip")
