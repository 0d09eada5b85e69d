import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from runyard.errors import AlreadyExists, InvalidArgument, NotFound
from runyard.model.assets import AssetKind
from runyard.model.names import check_asset_name, check_relative_path, check_workspace_name
from runyard.ports.stores import AssetStore
from runyard.services.content import Content
from runyard.services.folders import inside, plain_file


@dataclass(frozen=True)
class StoredFile:
    path: str
    size: int
    modified_at: datetime


class Datastores:
    """The files on a workspace's datastores: plain folders. A file appears whole or not at all."""

    def __init__(self, assets: AssetStore, *, folder: Path, incoming: Path, attempts: Path) -> None:
        self._assets, self._folder, self._incoming, self._attempts = assets, folder, incoming, attempts

    def forget_incoming(self) -> None:
        """Remove what a service that was killed left half written. Only for a service that has just begun."""
        shutil.rmtree(self._incoming, ignore_errors=True)

    def list(self, workspace: str, name: str, prefix: str = "") -> Sequence[StoredFile]:
        """Sorted by path. The prefix is of the text, so 'a/b' finds 'a/bc' too."""
        root = self.folder(workspace, name)
        start = root
        if "/" in prefix:
            start = inside(root, prefix.rpartition("/")[0] or ".", "prefix")
        return sorted(
            (file for file in _files_below(root, start) if file.path.startswith(prefix)), key=lambda f: f.path
        )

    def open(self, workspace: str, name: str, path: str) -> Content:
        where = inside(self.folder(workspace, name), path, "path")
        if not where.is_file():
            raise NotFound(f"There is no file {path!r} on datastore {name!r}.")
        return Content(where.stat().st_size, path=where)

    def put(self, workspace: str, name: str, path: str, pieces: Iterable[bytes], *, overwrite: bool) -> int:
        """Returns the size. Raises AlreadyExists unless `overwrite`."""
        target = self._target(workspace, name, path, overwrite=overwrite)
        with self._beside() as beside:
            with beside.open("wb") as new:
                for piece in pieces:
                    new.write(piece)
            _write_out(beside)
            size = beside.stat().st_size
            _put_in_place(beside, target)
        return size

    def adopt(
        self, workspace: str, name: str, items: Sequence[tuple[str, str]], *, overwrite: bool, anywhere: bool
    ) -> tuple[Sequence[str], Sequence[str]]:
        """Copy files of this machine in; returns target paths (written, skipped because they were there)."""
        allowed = None if anywhere else self._attempts
        written, skipped = [], []
        for source, path in items:
            path = check_relative_path(path, "target path")
            found = plain_file(source, allowed, "source")
            try:
                target = self._target(workspace, name, path, overwrite=overwrite)
            except AlreadyExists:
                skipped.append(path)
                continue
            with self._beside() as beside:
                shutil.copyfile(found, beside)
                _write_out(beside)
                _put_in_place(beside, target)
            written.append(path)
        return written, skipped

    def folder(self, workspace: str, name: str) -> Path:
        """Where it lies on this machine. Raises NotFound."""
        check_workspace_name(workspace)
        check_asset_name(AssetKind.DATASTORE, name)
        self._assets.get(workspace, AssetKind.DATASTORE, name)
        root = self._folder / workspace / name
        root.mkdir(parents=True, exist_ok=True)
        return root

    def _target(self, workspace: str, name: str, path: str, *, overwrite: bool) -> Path:
        target = inside(self.folder(workspace, name), path, "path")
        if target.is_dir():
            raise InvalidArgument(f"{path!r} is a folder on datastore {name!r}, so no file can have that path.")
        if target.exists() and not overwrite:
            raise AlreadyExists(f"Datastore {name!r} has a file {path!r} already.", hint="Pass overwrite=True.")
        return target

    def _beside(self) -> "_Incoming":
        self._incoming.mkdir(parents=True, exist_ok=True)
        return _Incoming(self._incoming / uuid.uuid4().hex)


class _Incoming:
    """A file being written, removed if it was not put in its place."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> Path:
        return self._path

    def __exit__(self, *_: object) -> None:
        self._path.unlink(missing_ok=True)


def _write_out(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _put_in_place(beside: Path, target: Path) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise InvalidArgument(f"A folder of {target.name!r} is a file on this datastore.") from None
    beside.replace(target)


def _files_below(root: Path, start: Path) -> Iterator[StoredFile]:
    for folder, _, names in os.walk(start):
        for name in names:
            path = Path(folder, name)
            try:
                found = path.lstat()
            except FileNotFoundError:
                continue
            modified_at = datetime.fromtimestamp(found.st_mtime, UTC)
            yield StoredFile(path.relative_to(root).as_posix(), found.st_size, modified_at)
