from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Annotated

from fastapi import Depends, Request
from pydantic import BeforeValidator, Field
from starlette.responses import Response, StreamingResponse

from runyard.core.definitions.assets import given_texts
from runyard.core.policy import Action
from runyard.core.records.data import StoredFile
from runyard.data.datasets.datastore_registry import NewDatastore
from runyard.server.api.records import AssetAnswer, asset_answer
from runyard.server.auth import require_same_machine
from runyard.server.http.archives import iterate_file_pack, pack_entry
from runyard.server.http.bodies import BodyPieces, run_with_body
from runyard.server.http.models import Body, Count, Object, Pair, as_tuple
from runyard.server.http.parameters import PATH
from runyard.server.http.responses import Json, NoContent, file_response, head_response, not_cached, to_json
from runyard.server.http.routes import OCTETS, Media, Routes
from runyard.server.services import CallerDep, ServicesDep

routes = Routes("/workspaces/{workspace}/datastores", tag="datastores")


class DatastoreBody(Body):
    name: str = Field(examples=["pictures"])
    kind: str = Field(examples=["folder"])
    settings: Object = Field({}, examples=[{"folder": "/data/pictures"}])
    credentials: Object = Field({})
    overwrite: bool = False
    create_if_not_exists: bool = False
    skip_validation: bool = False


class Adoption(Body):
    items: list[Pair] = Field(examples=[[["/data/cat.jpg", "pets/cat.jpg"]]])
    """Each [source, target]: an absolute path of the service's machine, and the path on the datastore."""
    overwrite: bool = False


@dataclass(frozen=True)
class Adopted:
    written: Sequence[str]
    skipped: Sequence[str]


@routes.post("", Action.CREATE_ASSET, AssetAnswer)
def register(services: ServicesDep, who: CallerDep, workspace: str, body: DatastoreBody) -> Response:
    """Register a datastore. Unless told not to, checks first that it answers."""
    new = NewDatastore(
        name=body.name,
        kind=body.kind,
        settings=given_texts(body.settings),
        credentials=given_texts(body.credentials),
        overwrite=body.overwrite,
        create_if_not_exists=body.create_if_not_exists,
        skip_validation=body.skip_validation,
    )
    return Json(asset_answer(services.datastores.register(who, workspace, new)))


@routes.get("/{name}/credentials", Action.READ_CREDENTIALS, dict[str, str])
def credentials(services: ServicesDep, who: CallerDep, workspace: str, name: str) -> Response:
    """The credentials of a datastore as they were given."""
    return not_cached(Json(services.datastores.credentials(who, workspace, name)))


@routes.post("/{name}/adopt", Action.ADOPT_FILES, Adopted, dependencies=[Depends(require_same_machine)])
def adopt(services: ServicesDep, who: CallerDep, workspace: str, name: str, body: Adoption) -> Response:
    """Copy files of the service's machine to a datastore."""
    return Json(Adopted(*services.store_files.adopt(who, workspace, name, body.items, overwrite=body.overwrite)))


file_routes = Routes("/workspaces/{workspace}/datastores/{name}", tag="datastore_files")
LINES_AT_ONCE = 500
MAX_FILES = 4096
PIECE_BYTES = 1024 * 1024
_FOUND = Media(OCTETS.type, "Files one after another: `NUMBER SP SIZE LF`, then the bytes.")
_PACK = Media(OCTETS.type, "Files one after another: `PATH SP SIZE LF`, the path percent-encoded, then the bytes.")
Asked = Annotated[tuple[str, Count, str], BeforeValidator(as_tuple)]


class WantedFiles(Body):
    files: list[Asked] = Field(max_length=MAX_FILES, examples=[[["pets/cat.jpg", 1024, ""]]])
    """Each [path, size, etag]."""


@dataclass(frozen=True)
class FileAnswer:
    path: str
    size: int | None
    etag: str
    modified_at: datetime | None


@dataclass(frozen=True)
class DatastoreFileList:
    files: list[FileAnswer]


@file_routes.get("/files", Action.READ_FILES, DatastoreFileList)
def list_files(
    services: ServicesDep, who: CallerDep, workspace: str, name: str, prefix: str = "", lines: bool = False
) -> Response:
    """List files whose paths begin with `prefix`. With `lines`, stream them as NDJSON."""
    if not lines:
        return Json(
            DatastoreFileList([_file_answer(file) for file in services.store_files.list(who, workspace, name, prefix)])
        )
    found = services.store_files.walk(who, workspace, name, prefix)
    first = next(found, None)  # so that an error is raised before the response begins
    return StreamingResponse(_lines(first, found), media_type="application/x-ndjson")


@file_routes.get(f"/stat/{PATH}", Action.READ_FILES, FileAnswer)
def stat_file(services: ServicesDep, who: CallerDep, workspace: str, name: str, path: str) -> Response:
    """Size, etag and time of a file."""
    return Json(_file_answer(services.store_files.stat(who, workspace, name, path)))


@file_routes.head(f"/files/{PATH}", Action.READ_FILES, OCTETS)
def head_file(services: ServicesDep, who: CallerDep, workspace: str, name: str, path: str) -> Response:
    """Size and etag of a file, as headers."""
    file = services.store_files.stat(who, workspace, name, path)
    return head_response(file.size, file.etag)


@file_routes.get(f"/files/{PATH}", Action.READ_FILES, OCTETS)
def get_file(
    services: ServicesDep, who: CallerDep, request: Request, workspace: str, name: str, path: str, etag: str = ""
) -> Response:
    """The bytes of a file, or a range of them. With `etag`, refused where the file has another."""
    content = services.store_files.open(who, workspace, name, path, etag)
    return file_response(content, path, range=request.headers.get("range"))


@file_routes.put(f"/files/{PATH}", Action.WRITE_FILES, FileAnswer, takes=OCTETS)
async def put_file(
    services: ServicesDep,
    who: CallerDep,
    request: Request,
    workspace: str,
    name: str,
    path: str,
    pieces: BodyPieces,
    overwrite: bool = False,
) -> Response:
    """Store a file, atomically."""
    put = services.store_files.put
    return Json(
        _file_answer(await run_with_body(request, lambda: put(who, workspace, name, path, pieces, overwrite=overwrite)))
    )


@file_routes.delete(f"/files/{PATH}", Action.DELETE_FILES)
def delete_file(services: ServicesDep, who: CallerDep, workspace: str, name: str, path: str) -> Response:
    """Delete a file; quiet where there is none."""
    services.store_files.delete(who, workspace, name, path)
    return NoContent()


@file_routes.post("/read-many", Action.READ_FILES, _FOUND)
def read_many(services: ServicesDep, who: CallerDep, workspace: str, name: str, body: WantedFiles) -> Response:
    """Read many small files. Those that changed or are gone are left out."""
    found = services.store_files.read_many(who, workspace, name, body.files)
    pieces = _coalesced(pack_entry(number, content) for number, content in found)
    return StreamingResponse(pieces, media_type=OCTETS.type)


@file_routes.post("/write-many", Action.WRITE_FILES, DatastoreFileList, takes=_PACK)
async def write_many(
    services: ServicesDep,
    who: CallerDep,
    request: Request,
    workspace: str,
    name: str,
    pieces: BodyPieces,
    overwrite: bool = False,
) -> Response:
    """Store many small files."""
    put, files = services.store_files.put_many, iterate_file_pack(pieces)
    stored = await run_with_body(request, lambda: put(who, workspace, name, files, overwrite=overwrite))
    return Json(DatastoreFileList([_file_answer(file) for file in stored]))


def _lines(first: StoredFile | None, rest: Iterator[StoredFile]) -> Iterator[bytes]:
    if first is not None:
        yield to_json(_file_answer(first)) + b"\n"
    while some := list(islice(rest, LINES_AT_ONCE)):
        yield b"".join(to_json(_file_answer(file)) + b"\n" for file in some)


def _coalesced(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Join small pieces, because each costs a thread switch."""
    waiting = bytearray()
    for piece in pieces:
        waiting += piece
        if len(waiting) >= PIECE_BYTES:
            yield bytes(waiting)
            waiting.clear()
    if waiting:
        yield bytes(waiting)


def _file_answer(file: StoredFile) -> FileAnswer:
    return FileAnswer(file.path, file.size, file.etag, file.modified_at)
