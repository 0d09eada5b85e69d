from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Annotated

from fastapi import Request
from pydantic import BeforeValidator, Field
from starlette.responses import Response, StreamingResponse

from runyard.core.policy import Action
from runyard.http.answers import Json, Nothing, file_answer, head_answer, to_json
from runyard.http.bodies import BodyPieces, take_in
from runyard.http.context import Use, Who
from runyard.http.models import Body, Count, as_tuple
from runyard.http.packs import packed, unpacked_files
from runyard.http.paths import PATH
from runyard.http.routing import OCTETS, Media, Routes
from runyard.model.data import StoredFile

routes = Routes("/workspaces/{workspace}/datastores/{name}", tag="datastore_files")
LINES_AT_ONCE = 500
MOST_AT_ONCE = 4096
PIECE_BYTES = 1024 * 1024
_FOUND = Media(OCTETS.type, "Files one after another: `NUMBER SP SIZE LF`, then the bytes.")
_PACK = Media(OCTETS.type, "Files one after another: `PATH SP SIZE LF`, the path percent-encoded, then the bytes.")
Asked = Annotated[tuple[str, Count, str], BeforeValidator(as_tuple)]


class WantedFiles(Body):
    files: list[Asked] = Field(max_length=MOST_AT_ONCE, examples=[[["pets/cat.jpg", 1024, ""]]])
    """Each [path, size, etag]."""


@dataclass(frozen=True)
class FileAnswer:
    path: str
    size: int | None
    etag: str
    modified_at: datetime | None


@dataclass(frozen=True)
class FileList:
    files: list[FileAnswer]


@routes.get("/files", Action.READ_FILES, FileList)
def list_files(services: Use, who: Who, workspace: str, name: str, prefix: str = "", lines: bool = False) -> Response:
    """List files whose paths begin with `prefix`. With `lines`, stream them as NDJSON."""
    if not lines:
        return Json(FileList([_shown(file) for file in services.store_files.list(who, workspace, name, prefix)]))
    found = services.store_files.walk(who, workspace, name, prefix)
    first = next(found, None)  # so that an error is raised before the response begins
    return StreamingResponse(_lines(first, found), media_type="application/x-ndjson")


@routes.get(f"/stat/{PATH}", Action.READ_FILES, FileAnswer)
def stat_file(services: Use, who: Who, workspace: str, name: str, path: str) -> Response:
    """Size, etag and time of a file."""
    return Json(_shown(services.store_files.stat(who, workspace, name, path)))


@routes.head(f"/files/{PATH}", Action.READ_FILES, OCTETS)
def head_file(services: Use, who: Who, workspace: str, name: str, path: str) -> Response:
    """Size and etag of a file, as headers."""
    file = services.store_files.stat(who, workspace, name, path)
    return head_answer(file.size, file.etag)


@routes.get(f"/files/{PATH}", Action.READ_FILES, OCTETS)
def get_file(
    services: Use, who: Who, request: Request, workspace: str, name: str, path: str, etag: str = ""
) -> Response:
    """The bytes of a file, or a range of them. With `etag`, refused where the file has another."""
    content = services.store_files.open(who, workspace, name, path, etag)
    return file_answer(content, path, range=request.headers.get("range"))


@routes.put(f"/files/{PATH}", Action.WRITE_FILES, FileAnswer, takes=OCTETS)
async def put_file(
    services: Use,
    who: Who,
    request: Request,
    workspace: str,
    name: str,
    path: str,
    pieces: BodyPieces,
    overwrite: bool = False,
) -> Response:
    """Store a file, atomically."""
    put = services.store_files.put
    return Json(_shown(await take_in(request, lambda: put(who, workspace, name, path, pieces, overwrite=overwrite))))


@routes.delete(f"/files/{PATH}", Action.DELETE_FILES)
def delete_file(services: Use, who: Who, workspace: str, name: str, path: str) -> Response:
    """Delete a file; quiet where there is none."""
    services.store_files.delete(who, workspace, name, path)
    return Nothing()


@routes.post("/read-many", Action.READ_FILES, _FOUND)
def read_many(services: Use, who: Who, workspace: str, name: str, body: WantedFiles) -> Response:
    """Read many small files. Those that changed or are gone are left out."""
    found = services.store_files.read_many(who, workspace, name, body.files)
    pieces = _gathered(packed(number, content) for number, content in found)
    return StreamingResponse(pieces, media_type=OCTETS.type)


@routes.post("/write-many", Action.WRITE_FILES, FileList, takes=_PACK)
async def write_many(
    services: Use,
    who: Who,
    request: Request,
    workspace: str,
    name: str,
    pieces: BodyPieces,
    overwrite: bool = False,
) -> Response:
    """Store many small files."""
    put, files = services.store_files.put_many, unpacked_files(pieces)
    stored = await take_in(request, lambda: put(who, workspace, name, files, overwrite=overwrite))
    return Json(FileList([_shown(file) for file in stored]))


def _lines(first: StoredFile | None, rest: Iterator[StoredFile]) -> Iterator[bytes]:
    if first is not None:
        yield to_json(_shown(first)) + b"\n"
    while some := list(islice(rest, LINES_AT_ONCE)):
        yield b"".join(to_json(_shown(file)) + b"\n" for file in some)


def _gathered(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Join small pieces, because each costs a thread switch."""
    waiting = bytearray()
    for piece in pieces:
        waiting += piece
        if len(waiting) >= PIECE_BYTES:
            yield bytes(waiting)
            waiting.clear()
    if waiting:
        yield bytes(waiting)


def _shown(file: StoredFile) -> FileAnswer:
    return FileAnswer(file.path, file.size, file.etag, file.modified_at)
