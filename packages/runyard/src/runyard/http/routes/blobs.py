from collections.abc import Iterator

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response, StreamingResponse

from runyard.errors import Unauthorized
from runyard.http.answers import Json, Nothing, file_answer
from runyard.http.auth import living, same_machine
from runyard.http.bodies import BodyPieces, JsonBody, take_in
from runyard.http.context import Use, Who
from runyard.http.fields import as_rows, names
from runyard.http.packs import unpacked
from runyard.http.zips import zipped
from runyard.model.names import check_sha256
from runyard.services.tokens import Role

router = APIRouter(dependencies=[Depends(living)])


@router.post("/blobs/missing")
def missing(services: Use, body: JsonBody) -> Response:
    return Json({"missing": services.blobs.missing(names(body, "sha256"))})


@router.post("/blobs/pack")
async def put_pack(services: Use, request: Request, pieces: BodyPieces) -> Response:
    await take_in(request, lambda: services.blobs.put_many(unpacked(pieces)))
    return Nothing()


@router.post("/blobs/adopt", dependencies=[Depends(same_machine)])
def adopt(services: Use, who: Who, body: JsonBody) -> Response:
    if who.role is Role.NODE:
        raise Unauthorized("A node's token hands over the files of its run, and nothing else.")
    return Json({"entries": services.blobs.adopt(names(body, "paths"), attempt_id=who.attempt_id)})


@router.put("/blobs/{sha256}")
async def put_blob(services: Use, request: Request, sha256: str, pieces: BodyPieces) -> Response:
    return Json({"size": await take_in(request, lambda: services.blobs.put(sha256, pieces))})


@router.get("/blobs/{sha256}")
def get_blob(services: Use, sha256: str) -> Response:
    services.callers_blobs.require_readable(check_sha256(sha256))
    return file_answer(services.blobs.open(sha256))


@router.get("/snapshots/{snapshot_id}")
def get_snapshot(services: Use, snapshot_id: str) -> Response:
    services.callers_blobs.require_snapshot(snapshot_id)
    snapshot = services.snapshots.get(snapshot_id)
    return Json({"id": snapshot.id, "entries": as_rows(snapshot.entries)})


@router.get("/snapshots/{snapshot_id}/zip")
def get_snapshot_zip(services: Use, snapshot_id: str) -> Response:
    services.callers_blobs.require_snapshot(snapshot_id)
    snapshot = services.snapshots.get(snapshot_id)
    services.blobs.require_sound(snapshot.entries)

    def opened() -> Iterator[bytes]:
        yield from zipped(snapshot.entries, services.blobs.read)

    return StreamingResponse(opened(), media_type="application/zip")
