import hashlib
import io
import os
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NamedTuple, cast

from runyard.client import Patience, ServiceAway, ServiceClient, quoted
from runyard.errors import AttemptOver, BlobsMissing, Json, RunyardError
from runyard.model.runs import RunId
from runyard.node.beneath import is_file_beneath, open_beneath, stat_beneath, unlink_beneath
from runyard.node.event_loop import now

_BATCH_FILES, _BATCH_BYTES = 1000, 256 << 20
_SMALL_BYTES, _PACK_BYTES = 1 << 20, 8 << 20
_PATIENCE_WHEN_FULL_SECONDS = 15.0


class Parcel(NamedTuple):
    """A file for a run's history. `path` is relative to `root`, and its name there unless it has another."""

    run_id: RunId
    root: Path
    path: str
    remove_after: bool = False
    other_name: str = ""
    within: Path | None = None
    """The folder that it must lie in, wherever links lead, if not `root`: one that no script can replace."""

    @property
    def file(self) -> Path:
        return self.root / self.path

    @property
    def trusted(self) -> Path:
        return self.within or self.root


class Mark(NamedTuple):
    """What tells whether a file changed."""

    size: int
    modified_ns: int
    inode: int


class Courier:
    """Hands files over to the service in a thread of its own, so that a large one holds up no log line.

    A file is sent again only when it changed since. `wake` is called after every batch. Once `is_final` is set,
    nobody can change the files any more, so the service may link them; one that no disk space was found for in a
    while all the same is left out, and named in `refused` like any other. `is_over` turns true when the service
    takes nothing of the attempt any more.
    """

    def __init__(
        self, client: ServiceClient, wake: Callable[[], None], *, by_path: bool, is_fenced: bool = False
    ) -> None:
        """`by_path`: the service sees this disk, so it is told where the files lie. `is_fenced`: those who write them
        see less of it; so not before they are gone, since until then a path may be made to lead elsewhere."""
        self._client, self._wake, self._by_path, self._is_fenced = client, wake, by_path, is_fenced
        self._waiting: dict[Parcel, None] = {}
        self._sent: dict[Parcel, Mark] = {}
        self._change = threading.Condition()
        self._is_busy = False
        self.refused: dict[str, str] = {}
        self.is_final = self.is_over = False
        self._full_since: float | None = None
        self._thread = threading.Thread(target=self._work, name="courier", daemon=True)
        self._started = False

    def offer(self, parcels: list[Parcel]) -> None:
        """Deliver these, unless they are as they were when last delivered."""
        if not parcels:
            return
        with self._change:
            self._waiting.update(dict.fromkeys(parcels))
            self._is_busy = True
            if not self._started:
                self._started = True
                self._thread.start()
            self._change.notify()

    @property
    def is_idle(self) -> bool:
        with self._change:
            return not self._is_busy

    def retry_now(self) -> None:
        with self._change:
            self._change.notify()

    def _work(self) -> None:
        patience = Patience()
        while True:
            with self._change:
                self._is_busy = bool(self._waiting)
                if not self._is_busy:
                    self._wake()
                    self._change.wait_for(lambda: bool(self._waiting))
                    self._is_busy = True
                batch = self._next_batch()
            try:
                self._deliver(batch)
                patience.renew()
                self._full_since = None
            except AttemptOver:
                self._give_up()
                return
            except ServiceAway as e:
                batch = self._without_hopeless(batch) if e.is_full else batch
                with self._change:
                    self._waiting = {**dict.fromkeys(batch), **self._waiting}
                    self._change.wait(patience.next_pause())

    def _give_up(self) -> None:
        with self._change:
            self.is_over, self._is_busy = True, False
            self._waiting.clear()
        self._wake()

    def _without_hopeless(self, batch: dict[Parcel, Mark]) -> dict[Parcel, Mark]:
        """Room for the others, when the run has ended and the service's disk stays full: first the largest goes."""
        self._full_since = self._full_since or now()
        if not batch or not self.is_final or now() - self._full_since < _PATIENCE_WHEN_FULL_SECONDS:
            return batch
        largest = max(batch, key=lambda parcel: batch[parcel].size)
        self.refused[largest.path] = f"The service has no disk space for its {batch[largest].size} bytes."
        return {parcel: mark for parcel, mark in batch.items() if parcel is not largest}

    def _next_batch(self) -> dict[Parcel, Mark]:
        batch: dict[Parcel, Mark] = {}
        room = _BATCH_BYTES
        for parcel in list(self._waiting):
            first = next(iter(batch), parcel)
            if len(batch) >= _BATCH_FILES or room <= 0:
                break
            if _kind(parcel) != _kind(first):
                continue
            del self._waiting[parcel]
            mark = _mark(parcel)
            if mark is not None and self._sent.get(parcel) != mark:
                batch[parcel] = mark
                room -= mark.size
        return batch

    def _deliver(self, batch: dict[Parcel, Mark]) -> None:
        if not batch:
            return
        parcels = list(batch)
        try:
            self._send(parcels)
        except AttemptOver:
            raise
        except RunyardError as e:
            self._deliver_halves(batch, e)
            return
        self._sent.update(batch)
        for parcel in parcels:
            self.refused.pop(parcel.path, None)
            if parcel.remove_after:
                unlink_beneath(parcel.file, parcel.trusted)

    def _deliver_halves(self, batch: dict[Parcel, Mark], error: RunyardError) -> None:
        """One bad file must not keep the others out."""
        if len(batch) == 1:
            parcel, mark = batch.popitem()
            if parcel.file.exists():
                self.refused[parcel.path] = str(error)
                self._sent[parcel] = mark
            return
        items = list(batch.items())
        middle = len(items) // 2
        self._deliver(dict(items[:middle]))
        self._deliver(dict(items[middle:]))

    def _send(self, parcels: list[Parcel]) -> None:
        address = f"/runs/{quoted(parcels[0].run_id)}/files"
        if self._by_path and (self.is_final or not self._is_fenced) and not parcels[0].other_name:
            paths = [parcel.path for parcel in parcels]
            body: Json = {"root": str(parcels[0].root), "paths": paths, "are_final": self.is_final}
            self._client.post(f"{address}/adopt", body)
            return
        found = [(parcel, entry) for parcel in parcels if (entry := _entry(parcel)) is not None]
        parcels, entries = [parcel for parcel, _ in found], [entry for _, entry in found]
        if not found:
            return
        try:
            self._client.post(address, {"entries": entries, "fail_if_exists": False})
        except BlobsMissing as e:
            self._send_blobs(parcels, entries, set(e.facts["sha256"]))
            self._client.post(address, {"entries": entries, "fail_if_exists": False})

    def _send_blobs(self, parcels: list[Parcel], entries: list[list[str | int]], missing: set[str]) -> None:
        """Small ones many in a request: a folder of checkpoints must not cost a round trip for each file."""
        pack, room = bytearray(), _PACK_BYTES
        for parcel, (_, sha256, size, _) in zip(parcels, entries, strict=True):
            if sha256 not in missing:
                continue
            missing.discard(str(sha256))
            try:
                file = _opened(parcel)
            except OSError:  # gone since: the service will say that it misses it
                continue
            with file:
                if int(size) > _SMALL_BYTES:
                    measured = cast("IO[bytes]", _Beginning(file, int(size)))
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


def files_below(
    run_id: RunId, root: Path, folder: str, *, remove_after: bool = False, within: Path | None = None
) -> Iterator[Parcel]:
    """Every plain file in `root/folder` and below; a link counts as the file below `within`, or `root`, that it leads
    to."""
    for path, _, names in os.walk(root / folder):
        for name in names:
            file = Path(path) / name
            if is_sendable(file, within or root):
                yield Parcel(run_id, root, file.relative_to(root).as_posix(), remove_after, within=within)


def names_that_are_no_text(root: Path, folder: str) -> Iterator[str]:
    """Of files in `root/folder` and below, as text with escapes: no path in a run's history can name them."""
    for path, _, names in os.walk(os.fsencode(root / folder)):
        for name in names:
            relative = os.path.relpath(os.path.join(path, name), os.fsencode(root))
            shown = relative.decode("utf-8", "backslashreplace")
            if shown.encode() != relative:
                yield shown


def is_sendable(file: Path, root: Path) -> bool:
    """A plain file below `root`, or a link to one; its name must be text."""
    try:
        file.as_posix().encode("utf-8")
    except UnicodeEncodeError:
        return False
    return is_file_beneath(file, root)


class _Beginning(io.RawIOBase):
    """The first bytes of a file that may have grown since it was measured."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file, self._left = file, size

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        piece = self._file.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(piece)
        return piece


def _kind(parcel: Parcel) -> tuple[RunId, Path, bool]:
    """Only those of one kind go in one request."""
    return parcel.run_id, parcel.root, bool(parcel.other_name)


def _mark(parcel: Parcel) -> Mark | None:
    try:
        found = stat_beneath(parcel.file, parcel.trusted)
    except OSError:
        return None
    return Mark(found.st_size, found.st_mtime_ns, found.st_ino)


def _opened(parcel: Parcel) -> IO[bytes]:
    return os.fdopen(open_beneath(parcel.file, parcel.trusted), "rb")


def _entry(parcel: Parcel) -> list[str | int] | None:
    """None for a file that has gone since it was offered."""
    digest, size = hashlib.sha256(), 0
    try:
        with _opened(parcel) as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
                size += len(piece)
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
    except OSError:
        return None
    return [parcel.other_name or parcel.path, digest.hexdigest(), size, mode]
