"""Homes without a service: stores and files as a service leaves them."""

from pathlib import Path
from typing import Any

from runyard.core.records.files import FileEntry
from runyard.core.records.runs import RunId
from runyard.storage.backup.folder import BackupFolder
from runyard.storage.backup.restore import restore_backup
from runyard.storage.backup.snapshot import BackupSource, BackupSummary, take_backup
from runyard.storage.blobs.logs import FileLogStore
from runyard.storage.blobs.store import FileBlobStore
from runyard.storage.sql.stores import Stores, open_stores
from runyard.testing.records import a_run


class Home:
    """A home without a service: its stores, and runs with files and logs."""

    def __init__(self, path: Path) -> None:
        path.mkdir(mode=0o700)
        self.path = path
        self.stores: Stores = open_stores(f"sqlite:///{path}/runyard.db")
        self.blobs, self.logs = FileBlobStore(path / "blobs"), FileLogStore(path / "logs")
        (path / "token").write_text("the token")
        (path / "secrets.key").write_text("the key")

    def add_run(self, run_id: str, files: int = 3) -> None:
        self.stores.runs.create(a_run(run_id))
        texts = {f"outputs/{n}": f"{run_id} {n}".encode() for n in range(files)}
        folder = self.path.parent / f"of-{run_id}"
        folder.mkdir()
        paths = []
        for name, text in texts.items():
            paths.append(folder / Path(name).name)
            paths[-1].write_bytes(text)
        stored = self.blobs.put_files(paths)
        self.stores.files.put(
            RunId(run_id), [FileEntry(name, sha, size) for name, (sha, size) in zip(texts, stored, strict=True)]
        )
        self.logs.append(run_id, "logs/out.txt", 0, b"a line\n")

    def texts(self, run_id: str) -> list[bytes]:
        return [self.blobs.open(entry.sha256).read() for entry in self.stores.files.list(RunId(run_id))]


def quiet(what: str, done: int, total: int) -> None:
    pass


def take(home: Home, folder: BackupFolder, **options: Any) -> BackupSummary:
    return take_backup(BackupSource(home.path, ""), folder, options.pop("report", quiet), **options)


def restored(folder: BackupFolder, path: Path, **options: Any) -> Home:
    path.mkdir(exist_ok=True)
    restore_backup(folder, path, "", quiet, **{"name": None, "replace": False, **options})
    found = Home.__new__(Home)
    found.path, found.stores = path, open_stores(f"sqlite:///{path}/runyard.db")
    found.blobs, found.logs = FileBlobStore(path / "blobs"), FileLogStore(path / "logs")
    return found
