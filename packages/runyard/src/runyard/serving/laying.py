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
_Stamp = list[object]
"""Blob, mode, size, mtime and inode of a staged file: differs once a worker has written to it."""


class GivenUp(Exception):
    """The deployment that needs these files was cancelled."""


class FileLaying:
    """Copies files of one revision from the home's blobs. `cancelled` may be set from any thread."""

    def __init__(self, blobs: FileBlobStore, cancelled: threading.Event) -> None:
        self._blobs, self._cancelled = blobs, cancelled

    def stage(self, entries: Iterable[FileEntry], folder: Path) -> None:
        """Copy them, never link: a worker may write to them.

        Raises NotFound for a missing blob, StagingCancelled, OSError.
        """
        place_files(list(entries), folder, self._blobs, _nowhere_else, copy=self._copy)

    def stage_models(self, models: Iterable[ServedModel], revision: Path, name: str, earlier: Path | None) -> None:
        """As `stage`, below `name` of a revision's folder. A file that the earlier revision has unchanged is
        hard-linked instead of copied."""
        known = _read_stamps(earlier) if earlier else {}
        stamps: dict[str, _Stamp] = {}
        for model in models:
            for entry in model.files:
                path = f"{name}/{folder_of(model)}/{entry.path}"
                if not (earlier and _is_linked(earlier / path, revision / path, known.get(path), entry)):
                    self.stage([entry], revision / name / folder_of(model))
                stamps[path] = _stamp(revision / path, entry)
        (revision / _MANIFEST).write_text(json.dumps(stamps), encoding="utf-8")

    def _copy(self, source: Path, target: Path) -> None:
        with open(source, "rb") as read, open(target, "wb") as written:
            while _copy_piece(read.fileno(), written.fileno()):
                if self._cancelled.is_set():
                    raise GivenUp


def _copy_piece(source: int, target: int) -> int:
    """Copy the next piece and return its size; 0 at the end of the file."""
    try:
        return os.copy_file_range(source, target, _PIECE_BYTES)  # shares blocks where the file system can
    except OSError as error:
        if error.errno not in _CANNOT_SHARE:
            raise
        return os.sendfile(target, source, None, _PIECE_BYTES)


def folder_of(model: ServedModel) -> Path:
    if not model.name or "/" in model.name or "\0" in model.name or model.name in (".", ".."):
        raise InvalidArgument(f"{model.name!r} cannot be the name of a model.")
    return Path(model.name, str(model.version))


def _is_linked(source: Path, target: Path, stamp: _Stamp | None, entry: FileEntry) -> bool:
    try:
        if stamp is None or stamp != _stamp(source, entry):
            return False
        target.parent.mkdir(parents=True, exist_ok=True)
        os.link(source, target, follow_symlinks=False)
    except OSError:  # gone, or a file system without links
        return False
    return True


def _stamp(file: Path, entry: FileEntry) -> _Stamp:
    found = file.lstat()
    return [entry.sha256, entry.mode, found.st_size, found.st_mtime_ns, found.st_ino]


def _read_stamps(revision: Path) -> dict[str, _Stamp]:
    try:
        return dict(json.loads((revision / _MANIFEST).read_bytes()))
    except (OSError, ValueError):
        return {}


def _nowhere_else() -> NoReturn:
    raise NotFound(
        "Files of the web service are missing in the home folder.",
        hint="Register the model again, or deploy the code again.",
    )
