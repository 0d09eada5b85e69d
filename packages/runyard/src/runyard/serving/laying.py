"""Bringing models to the folder of a revision: what its predecessor has already is not copied again."""

import errno
import json
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

from runyard.blobs.files import FileBlobStore
from runyard.errors import InvalidArgument, NotFound
from runyard.model.files import FileEntry
from runyard.model.web_services import ServedModel
from runyard.node.code import place_files

_PIECE_BYTES = 16 << 20
_CANNOT_SHARE = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
_MANIFEST = "models.json"
_Mark = list[object]
"""How a file was when it was laid: blob, mode, and what the file system says of a file that nobody has written to."""


class GivenUp(Exception):
    """Nobody waits for these files any more."""


class FileLaying:
    """Files of one revision, from the blobs of the home. `given_up` may be set from any thread."""

    def __init__(self, blobs: FileBlobStore, given_up: threading.Event) -> None:
        self._blobs, self._given_up = blobs, given_up

    def lay(self, entries: Iterable[FileEntry], folder: Path) -> None:
        """Copies: a worker may write to them. Raises NotFound for a blob that is missing, GivenUp, OSError."""
        place_files(list(entries), folder, self._blobs, _nowhere_else, copy=self._copy)

    def lay_models(self, models: Iterable[ServedModel], revision: Path, name: str, earlier: Path | None) -> None:
        """As `lay`, below `name` of a revision's folder. A file that an earlier revision has, and that none of its
        workers has written to, is the same file for both."""
        known = _marks(earlier) if earlier else {}
        marks: dict[str, _Mark] = {}
        for model in models:
            for entry in model.files:
                path = f"{name}/{folder_of(model)}/{entry.path}"
                if not (earlier and _is_shared(earlier / path, revision / path, known.get(path), entry)):
                    self.lay([entry], revision / name / folder_of(model))
                marks[path] = _mark(revision / path, entry)
        (revision / _MANIFEST).write_text(json.dumps(marks), encoding="utf-8")

    def _copy(self, source: Path, target: Path) -> None:
        with open(source, "rb") as read, open(target, "wb") as written:
            while _copy_piece(read.fileno(), written.fileno()):
                if self._given_up.is_set():
                    raise GivenUp


def _copy_piece(source: int, target: int) -> int:
    """Bytes that were copied; 0 at the end."""
    try:
        return os.copy_file_range(source, target, _PIECE_BYTES)  # may share blocks, where the file system can
    except OSError as error:
        if error.errno not in _CANNOT_SHARE:
            raise
        return os.sendfile(target, source, None, _PIECE_BYTES)


def folder_of(model: ServedModel) -> Path:
    if not model.name or "/" in model.name or "\0" in model.name or model.name in (".", ".."):
        raise InvalidArgument(f"{model.name!r} cannot be the name of a model.")
    return Path(model.name, str(model.version))


def _is_shared(source: Path, target: Path, mark: _Mark | None, entry: FileEntry) -> bool:
    try:
        if mark is None or mark != _mark(source, entry):
            return False
        target.parent.mkdir(parents=True, exist_ok=True)
        os.link(source, target, follow_symlinks=False)
    except OSError:  # gone, or a file system without links
        return False
    return True


def _mark(file: Path, entry: FileEntry) -> _Mark:
    found = file.lstat()
    return [entry.sha256, entry.mode, found.st_size, found.st_mtime_ns, found.st_ino]


def _marks(revision: Path) -> dict[str, _Mark]:
    try:
        return dict(json.loads((revision / _MANIFEST).read_bytes()))
    except (OSError, ValueError):
        return {}


def _nowhere_else() -> NoReturn:
    raise NotFound(
        "Files of the web service are missing in the home folder.",
        hint="Register the model again, or deploy the code again.",
    )
