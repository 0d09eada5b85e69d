import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runyard.core.ports.data import Progress
from runyard.core.records.data import NetworkRules, SourceFile, StoreAccess
from runyard.data.datastores import open_store
from runyard.data.fuse import kernel
from runyard.data.fuse.device import open_mount, raise_read_ahead
from runyard.data.fuse.file_index import FileIndex
from runyard.data.fuse.log import MountLog, ReadProgress
from runyard.data.fuse.mounts import Mount, ReadOnlyMount
from runyard.data.fuse.read_only_tree import ReadOnlyTree
from runyard.data.fuse.server import REQUEST_BYTES, FuseServer, pass_leadership
from runyard.data.fuse.staged_files import StagingFolder
from runyard.data.fuse.writable_tree import WritableTree
from runyard.data.transfers import BlockCache, Reader, cache_limit

_PROGRESS_SECONDS = 5.0
_WORKER_EXIT_SECONDS = 0.2


@dataclass
class _Served:
    mount: Mount
    tree: ReadOnlyTree | WritableTree
    server: FuseServer
    progress: ReadProgress
    made_folder: bool


class MountSession:
    """All mounts of one process. They share one reader: its connections and its cache."""

    def __init__(
        self,
        stores: Mapping[str, StoreAccess],
        rules: NetworkRules,
        cache: Path,
        log: MountLog,
        progress: Progress | None = None,
    ) -> None:
        self._stores = {name: open_store(access, rules) for name, access in stores.items()}
        self._cache = BlockCache(cache, cache_limit(cache), log.line)
        self._reader = Reader(self._cache, self._stores, before_waiting=pass_leadership)
        self._staging = StagingFolder(cache / "written")
        self._log, self._progress = log, progress
        self._served: list[_Served] = []
        self._reported_at = time.monotonic()

    def mount_all(self, mounts: Sequence[Mount]) -> None:
        """Mount all; after an error none is mounted."""
        try:
            for mount in mounts:
                self._mount(mount)
        except BaseException:
            self.finish()
            raise

    def tick(self) -> None:
        """Do periodic work. Call it about every second."""
        for served in self._served:
            served.server.release_killed()
        if self._progress or time.monotonic() - self._reported_at >= _PROGRESS_SECONDS:
            self._reported_at = time.monotonic()
            self._report_progress()

    def finish(self) -> dict[str, Any]:
        """Store what is not stored yet, unmount, and return the report: lost files and byte counts."""
        for served in self._served:
            if isinstance(served.tree, WritableTree):
                served.tree.finish()
        for served in self._served:
            kernel.unmount(served.mount.mount_point)
        for served in self._served:
            served.server.wait(_WORKER_EXIT_SECONDS)
            if served.made_folder:
                with contextlib.suppress(OSError):
                    os.rmdir(served.mount.mount_point)
        self._report_progress()
        report = {
            "lost": [sentence for served in self._served for sentence in _lost(served)],
            "mounts": {served.mount.name: _counts(served) for served in self._served},
        }
        self._reader.close()
        self._cache.close()
        self._staging.close()
        return report

    def _mount(self, mount: Mount) -> None:
        if isinstance(mount, ReadOnlyMount):
            index = FileIndex(mount.files)
            self._reader.follow([node for node in index.nodes if isinstance(node, SourceFile)])
            progress = ReadProgress(mount.name, index.bytes)
            tree: ReadOnlyTree | WritableTree = ReadOnlyTree(index, self._reader, self._log, progress)
        else:
            progress = ReadProgress(mount.name, None)
            tree = WritableTree(mount, self._stores[mount.store], self._reader, self._staging, self._log, progress)
        made_folder = not mount.mount_point.is_dir()
        mount.mount_point.mkdir(parents=True, exist_ok=True)
        device = open_mount(mount.mount_point, mount.name, read_only=not tree.is_writable)
        server = FuseServer(device, tree, self._log)
        self._served.append(_Served(mount, tree, server, progress, made_folder))
        server.start()
        raise_read_ahead(mount.mount_point, REQUEST_BYTES // 1024)

    def _report_progress(self) -> None:
        for served in self._served:
            if self._progress:
                self._progress(served.progress.new_bytes())
            else:
                self._log.line_if_any(served.progress.progress_line())
            if isinstance(served.tree, WritableTree):
                self._log.line_if_any(served.tree.progress_line())


def _lost(served: _Served) -> list[str]:
    return served.tree.lost() if isinstance(served.tree, WritableTree) else []


def _counts(served: _Served) -> dict[str, int]:
    counts = {"read_bytes": served.progress.bytes}
    if isinstance(served.tree, WritableTree):
        counts |= {"written_files": served.tree.written_files, "written_bytes": served.tree.written_bytes}
    return counts
