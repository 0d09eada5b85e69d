import hashlib
import io
import os
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NamedTuple, cast

from runyard.client import Backoff, ServiceClient, ServiceUnavailable, quoted
from runyard.core.errors import AttemptOver, BlobsMissing, Json, RunyardError
from runyard.core.records.runs import RunId
from runyard.node.confined_files import is_file_beneath, open_beneath, stat_beneath, unlink_beneath
from runyard.node.processes.event_loop import now

_BATCH_FILES, _BATCH_BYTES = 1000, 256 << 20
_SMALL_BYTES, _PACK_BYTES = 1 << 20, 8 << 20
_PATIENCE_WHEN_FULL_SECONDS = 15.0


class UploadItem(NamedTuple):
    """A file to upload as an artifact. `path` is relative to `root`, and the artifact's name unless `other_name` is."""

    run_id: RunId
    root: Path
    path: str
    remove_after: bool = False
    other_name: str = ""
    within: Path | None = None
    """Folder that it must lie in after following links, if not `root`. No script can replace that folder."""

    @property
    def file(self) -> Path:
        return self.root / self.path

    @property
    def trusted(self) -> Path:
        return self.within or self.root


class FileStamp(NamedTuple):
    """Identity of a file's content: it differs when the file has changed."""

    size: int
    modified_ns: int
    inode: int


class ArtifactUploader:
    """Uploads files to the service in a thread of its own, so that a large file delays no log line.

    A file is sent again only if it has changed. `wake` is called when nothing is left to send. Set `is_final` when
    nobody can change the files any more: then the service may link them, and a file for which the service has no disk
    space for a while is given up. `refused` names files that were not taken. `is_over` turns true when the service
    takes nothing of the attempt any more.
    """

    def __init__(
        self, client: ServiceClient, wake: Callable[[], None], *, by_path: bool, is_fenced: bool = False
    ) -> None:
        """`by_path`: the service has this disk too, so it gets paths instead of content. `is_fenced`: the script runs
        in a container, so paths are sent only when `is_final`: until then it could make a path lead elsewhere."""
        self._client, self._wake, self._by_path, self._is_fenced = client, wake, by_path, is_fenced
        self._waiting: dict[UploadItem, None] = {}
        self._sent: dict[UploadItem, FileStamp] = {}
        self._changed = threading.Condition()
        self._is_busy = False
        self.refused: dict[str, str] = {}
        self.is_final = self.is_over = False
        self._disk_full_since: float | None = None
        self._thread = threading.Thread(target=self._upload_batches, name="uploader", daemon=True)
        self._started = self._is_closed = False

    def enqueue(self, items: list[UploadItem]) -> None:
        """Queue files for upload. Those that have not changed since their last upload are skipped."""
        if not items:
            return
        with self._changed:
            self._waiting.update(dict.fromkeys(items))
            self._is_busy = True
            if not self._started:
                self._started = True
                self._thread.start()
            self._changed.notify()

    @property
    def is_idle(self) -> bool:
        with self._changed:
            return not self._is_busy

    def retry_now(self) -> None:
        with self._changed:
            self._changed.notify()

    def close(self) -> None:
        """End the thread and close its connections. Call it when everything is delivered."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._started:
            self._thread.join()
        self._client.close()

    def _upload_batches(self) -> None:
        patience = Backoff()
        while True:
            with self._changed:
                self._is_busy = bool(self._waiting)
                if not self._is_busy:
                    self._wake()
                    self._changed.wait_for(lambda: bool(self._waiting) or self._is_closed)
                    if self._is_closed:
                        return
                    self._is_busy = True
                batch = self._next_batch()
            try:
                self._deliver(batch)
                patience.renew()
                self._disk_full_since = None
            except AttemptOver:
                self._give_up()
                return
            except ServiceUnavailable as e:
                batch = self._without_largest(batch) if e.is_full else batch
                with self._changed:
                    self._waiting = {**dict.fromkeys(batch), **self._waiting}
                    self._changed.wait(patience.next_pause())

    def _give_up(self) -> None:
        with self._changed:
            self.is_over, self._is_busy = True, False
            self._waiting.clear()
        self._wake()

    def _without_largest(self, batch: dict[UploadItem, FileStamp]) -> dict[UploadItem, FileStamp]:
        """Give up the largest file, when the run has ended and the service's disk stays full."""
        self._disk_full_since = self._disk_full_since or now()
        if not batch or not self.is_final or now() - self._disk_full_since < _PATIENCE_WHEN_FULL_SECONDS:
            return batch
        largest = max(batch, key=lambda item: batch[item].size)
        self.refused[largest.path] = f"The service has no disk space for its {batch[largest].size} bytes."
        return {item: stamp for item, stamp in batch.items() if item is not largest}

    def _next_batch(self) -> dict[UploadItem, FileStamp]:
        batch: dict[UploadItem, FileStamp] = {}
        room = _BATCH_BYTES
        for item in list(self._waiting):
            first = next(iter(batch), item)
            if len(batch) >= _BATCH_FILES or room <= 0:
                break
            if _batch_key(item) != _batch_key(first):
                continue
            del self._waiting[item]
            stamp = _stamp(item)
            if stamp is not None and self._sent.get(item) != stamp:
                batch[item] = stamp
                room -= stamp.size
        return batch

    def _deliver(self, batch: dict[UploadItem, FileStamp]) -> None:
        if not batch:
            return
        items = list(batch)
        try:
            self._send(items)
        except AttemptOver:
            raise
        except RunyardError as e:
            self._deliver_halves(batch, e)
            return
        self._sent.update(batch)
        for item in items:
            self.refused.pop(item.path, None)
            if item.remove_after:
                unlink_beneath(item.file, item.trusted)

    def _deliver_halves(self, batch: dict[UploadItem, FileStamp], error: RunyardError) -> None:
        """Send the halves of a refused batch apart, down to the bad file."""
        if len(batch) == 1:
            item, stamp = batch.popitem()
            if item.file.exists():
                self.refused[item.path] = str(error)
                self._sent[item] = stamp
            return
        pairs = list(batch.items())
        middle = len(pairs) // 2
        self._deliver(dict(pairs[:middle]))
        self._deliver(dict(pairs[middle:]))

    def _send(self, items: list[UploadItem]) -> None:
        address = f"/runs/{quoted(items[0].run_id)}/files"
        if self._by_path and (self.is_final or not self._is_fenced) and not items[0].other_name:
            paths = [item.path for item in items]
            body: Json = {"root": str(items[0].root), "paths": paths, "are_final": self.is_final}
            self._client.post(f"{address}/adopt", body)
            return
        found = [(item, entry) for item in items if (entry := _entry(item)) is not None]
        items, entries = [item for item, _ in found], [entry for _, entry in found]
        if not found:
            return
        try:
            self._client.post(address, {"entries": entries, "fail_if_exists": False})
        except BlobsMissing as e:
            self._send_blobs(items, entries, set(e.facts["sha256"]))
            self._client.post(address, {"entries": entries, "fail_if_exists": False})

    def _send_blobs(self, items: list[UploadItem], entries: list[list[str | int]], missing: set[str]) -> None:
        """Upload missing blobs. Small ones share a request: many files must not cost a round trip each."""
        pack, room = bytearray(), _PACK_BYTES
        for item, (_, sha256, size, _) in zip(items, entries, strict=True):
            if sha256 not in missing:
                continue
            missing.discard(str(sha256))
            try:
                file = _opened(item)
            except OSError:  # deleted meanwhile: the service reports it as missing
                continue
            with file:
                if int(size) > _SMALL_BYTES:
                    measured = cast("IO[bytes]", _FirstBytes(file, int(size)))
                    self._client.upload_open(f"/blobs/{sha256}", measured, int(size))
                    continue
                content = file.read(_PACK_BYTES)
            pack += f"{hashlib.sha256(content).hexdigest()} {len(content)}\n".encode() + content
            room -= len(content)
            if room < 0:
                self._client.post_bytes("/blobs/pack", bytes(pack))
                pack, room = bytearray(), _PACK_BYTES
        if pack:
            self._client.post_bytes("/blobs/pack", bytes(pack))


def upload_items_below(
    run_id: RunId, root: Path, folder: str, *, remove_after: bool = False, within: Path | None = None
) -> Iterator[UploadItem]:
    """Items for every regular file in `root/folder` and below, and for links to regular files below `within` or
    `root`."""
    for path, _, names in os.walk(root / folder):
        for name in names:
            file = Path(path) / name
            if is_uploadable(file, within or root):
                yield UploadItem(run_id, root, file.relative_to(root).as_posix(), remove_after, within=within)


def non_utf8_names(root: Path, folder: str) -> Iterator[str]:
    """Names, with escapes, of files in `root/folder` and below that are not UTF-8: artifacts cannot have them."""
    for path, _, names in os.walk(os.fsencode(root / folder)):
        for name in names:
            relative = os.path.relpath(os.path.join(path, name), os.fsencode(root))
            shown = relative.decode("utf-8", "backslashreplace")
            if shown.encode() != relative:
                yield shown


def is_uploadable(file: Path, root: Path) -> bool:
    """Tell whether it is a regular file below `root`, or a link to one, with a UTF-8 name."""
    try:
        file.as_posix().encode("utf-8")
    except UnicodeEncodeError:
        return False
    return is_file_beneath(file, root)


class _FirstBytes(io.RawIOBase):
    """Reads the first `size` bytes of a file, which may have grown since."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file, self._left = file, size

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        piece = self._file.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(piece)
        return piece


def _batch_key(item: UploadItem) -> tuple[RunId, Path, bool]:
    """Files with the same key may go in one request."""
    return item.run_id, item.root, bool(item.other_name)


def _stamp(item: UploadItem) -> FileStamp | None:
    try:
        found = stat_beneath(item.file, item.trusted)
    except OSError:
        return None
    return FileStamp(found.st_size, found.st_mtime_ns, found.st_ino)


def _opened(item: UploadItem) -> IO[bytes]:
    return os.fdopen(open_beneath(item.file, item.trusted), "rb")


def _entry(item: UploadItem) -> list[str | int] | None:
    """Name, hash, size and mode for the request; None for a file that was deleted meanwhile."""
    digest, size = hashlib.sha256(), 0
    try:
        with _opened(item) as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
                size += len(piece)
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
    except OSError:
        return None
    return [item.other_name or item.path, digest.hexdigest(), size, mode]
