"""The files of datastores: for clients elsewhere, and for nodes that share no disk with the service."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response, StreamingResponse

from runyard.errors import InvalidArgument
from runyard.http.answers import Json, Nothing, file_answer, head_answer, to_json
from runyard.http.auth import datastore_access, many_files_access
from runyard.http.bodies import BodyPieces, JsonBody, take_in
from runyard.http.context import Services, Use, Who
from runyard.http.packs import packed, unpacked_files
from runyard.http.paths import PATH
from runyard.model.data import StoredFile
from runyard.services.tokens import Caller

PREFIX = "/workspaces/{workspace}/datastores/{name}"
router = APIRouter(prefix=PREFIX, dependencies=[Depends(datastore_access)])
many = APIRouter(prefix=PREFIX, dependencies=[Depends(many_files_access)])
LINES_AT_ONCE = 500
MOST_AT_ONCE = 4096
PIECE_BYTES = 1024 * 1024


@router.get("/files")
def list_files(services: Use, who: Who, workspace: str, name: str, prefix: str = "", lines: bool = False) -> Response:
    """With `lines` as they are found, each in a line of its own."""
    if not lines:
        files = _visible(services, who, workspace, name, iter(services.store_files.list(workspace, name, prefix)))
        return Json({"files": [_shown(file) for file in files]})
    found = _visible(services, who, workspace, name, services.store_files.walk(workspace, name, prefix))
    first = next(found, None)  # what cannot be listed at all is told before the answer begins
    return StreamingResponse(_lines(first, found), media_type="application/x-ndjson")


@router.get(f"/stat/{PATH}")
def stat_file(services: Use, workspace: str, name: str, path: str) -> Response:
    return Json(_shown(services.store_files.stat(workspace, name, path)))


@router.head(f"/files/{PATH}")
def head_file(services: Use, workspace: str, name: str, path: str) -> Response:
    file = services.store_files.stat(workspace, name, path)
    return head_answer(file.size, file.etag)


@router.get(f"/files/{PATH}")
def get_file(services: Use, request: Request, workspace: str, name: str, path: str, etag: str = "") -> Response:
    content = services.store_files.open(workspace, name, path, etag)
    return file_answer(content, path, range=request.headers.get("range"))


@router.put(f"/files/{PATH}")
async def put_file(
    services: Use,
    request: Request,
    workspace: str,
    name: str,
    path: str,
    pieces: BodyPieces,
    overwrite: bool = False,
) -> Response:
    put = services.store_files.put
    return Json(_shown(await take_in(request, lambda: put(workspace, name, path, pieces, overwrite=overwrite))))


@router.delete(f"/files/{PATH}")
def delete_file(services: Use, workspace: str, name: str, path: str) -> Response:
    services.store_files.delete(workspace, name, path)
    return Nothing()


@many.post("/read-many")
def read_many(services: Use, who: Who, workspace: str, name: str, body: JsonBody) -> Response:
    """Whole files that are as they are asked for; others are left out."""
    wanted = _asked(body.get("files"))
    for path, _, _ in wanted:
        _require(services, who, workspace, name, path, writes=False)
    found = services.store_files.read_many(workspace, name, wanted)
    pieces = _gathered(packed(number, content) for number, content in found)
    return StreamingResponse(pieces, media_type="application/octet-stream")


@many.post("/write-many")
async def write_many(
    services: Use,
    who: Who,
    request: Request,
    workspace: str,
    name: str,
    pieces: BodyPieces,
    overwrite: bool = False,
) -> Response:
    def files() -> Iterator[tuple[str, bytes]]:
        for path, content in unpacked_files(pieces):
            _require(services, who, workspace, name, path, writes=True)
            yield path, content

    put = services.store_files.put_many
    stored = await take_in(request, lambda: put(workspace, name, files(), overwrite=overwrite))
    return Json({"files": [_shown(file) for file in stored]})


def _require(services: Services, who: Caller, workspace: str, name: str, path: str, *, writes: bool) -> None:
    if who.attempt_id is not None and who.run_id is not None:
        services.node_reach.require(who.run_id, workspace, name, path, writes=writes)


def _asked(given: Any) -> list[tuple[str, int, str]]:
    if not isinstance(given, list) or len(given) > MOST_AT_ONCE:
        raise InvalidArgument(f"files must be a list of at most {MOST_AT_ONCE} [path, size, etag].")
    try:
        return [(str(path), int(size), str(etag)) for path, size, etag in given]
    except (TypeError, ValueError):
        raise InvalidArgument("files must be a list of [path, size, etag].") from None


def _visible(
    services: Services, who: Caller, workspace: str, name: str, files: Iterator[StoredFile]
) -> Iterator[StoredFile]:
    """A listing goes by the beginning of paths, which may be that of others' files too."""
    if who.attempt_id is None or who.run_id is None:
        return files
    run_id, allows = who.run_id, services.node_reach.allows
    return (file for file in files if allows(run_id, workspace, name, file.path))


def _lines(first: StoredFile | None, rest: Iterator[StoredFile]) -> Iterator[bytes]:
    if first is not None:
        yield to_json(_shown(first)) + b"\n"
    while some := list(islice(rest, LINES_AT_ONCE)):
        yield b"".join(to_json(_shown(file)) + b"\n" for file in some)


def _gathered(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Larger ones, since each costs a change of threads."""
    waiting = bytearray()
    for piece in pieces:
        waiting += piece
        if len(waiting) >= PIECE_BYTES:
            yield bytes(waiting)
            waiting.clear()
    if waiting:
        yield bytes(waiting)


def _shown(file: StoredFile) -> dict[str, Any]:
    return {"path": file.path, "size": file.size, "etag": file.etag, "modified_at": file.modified_at}
