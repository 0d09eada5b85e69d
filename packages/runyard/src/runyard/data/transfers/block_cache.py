import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from hashlib import blake2b
from io import FileIO
from pathlib import Path

from runyard.core.disk import is_disk_full
from runyard.core.durable_files import exclusive_lock
from runyard.core.errors import InvalidArgument
from runyard.core.records.data import SourceFile
from runyard.data.transfers.segments import (
    INDEX_SUFFIX,
    MOST_BLOCKS,
    WHOLE_FILE,
    Block,
    BlockKey,
    BlockLocation,
    Segment,
    SegmentWriter,
    index_of,
    make_durable,
    make_segment,
    path_for_file,
    this_boot,
)

_LEAST_SEGMENT_BYTES = 1 << 20
_USUAL_SEGMENT_BYTES = 64 << 20
_LEAST_SEGMENTS = 16
_MOST_SEGMENTS = 256
_REFRESH_SECONDS_AFTER_MISS = 1.0
_REFRESH_SECONDS = 30.0
_PAUSE_SECONDS = 30.0
_BATCH_BYTES = 1 << 20
_SEAL_SECONDS = 1.0
_SETTLED_SECONDS = 60.0


def _nothing(sentence: str) -> None:
    pass


class BlockCache:
    """Cache on disk of blocks of remote files, shared by all processes of a home. Safe for many threads.

    Holds about `limit_bytes` over all processes; the least recently used go first. If it cannot be written (a full
    disk), blocks are not kept and no read fails; `log_line` gets one message. A block whose bytes were changed on disk
    is not used. Call `close` to let other processes use the latest blocks at once.
    """

    def __init__(self, folder: Path, limit_bytes: int, log_line: Callable[[str], None] = _nothing) -> None:
        self._folder, self.limit_bytes, self._log_line = folder, limit_bytes, log_line
        self._segment_bytes = _segment_bytes(limit_bytes)
        self._locations: dict[BlockKey, BlockLocation] = {}
        self._segments: dict[str, Segment] = {}
        self._refreshing = threading.Lock()
        self._refreshed_at = float("-inf")
        self._writing = threading.Lock()
        self._writer: SegmentWriter | None = None
        self._unwritten: list[Block] = []
        self._unwritten_bytes = 0
        self._is_seal_due = False
        self._pause_until = 0.0
        self._has_warned = False

    def read(self, key: BlockKey, start: int, length: int, *, size: int) -> bytes | None:
        """Part of a block of `size` bytes; None if it is not cached, or was changed on disk."""
        location = self._find(key)
        if location is None or location.length != size:
            return None
        part = location.read(start, length)
        if part is None:
            self.forget(key)
        return part

    def has(self, key: BlockKey) -> bool:
        """Whether the block seems to be cached; only `read` is certain."""
        return self._find(key) is not None

    def keep(self, key: BlockKey, data: bytes | memoryview, *, is_shared: bool) -> None:
        """Store a block. Never raises: a block that cannot be stored is fetched again when needed."""
        self.keep_all([Block(key, data, is_shared)])

    def keep_all(self, blocks: Sequence[Block]) -> None:
        """Store many blocks, as `keep`."""
        if time.monotonic() < self._pause_until:
            return
        good = [one for one in blocks if len(one.data) <= self.limit_bytes and one.key.block <= MOST_BLOCKS]
        with self._writing:
            self._unwritten += good
            self._unwritten_bytes += sum(len(one.data) for one in good)
            if self._unwritten_bytes >= _BATCH_BYTES:
                self._write()
            self._seal_soon()

    def forget(self, key: BlockKey) -> None:
        """Make this process fetch the block again when it is needed."""
        self._locations.pop(key, None)

    def open_whole(self, file: bytes, size: int | None) -> FileIO | None:
        """Open a file that was stored whole; None if it is not cached."""
        location = self._find(BlockKey(file, WHOLE_FILE))
        if location is None or size not in (None, location.length):
            return None
        return location.segment.opened()

    def path_for_whole(self) -> Path:
        """Path to write a file to before `keep_whole`. Raises OSError."""
        self._segments_folder.mkdir(parents=True, exist_ok=True)
        return path_for_file(self._segments_folder)

    def keep_whole(self, file: bytes, path: Path) -> bool:
        """Add a file at a `path_for_whole` to the cache. Returns whether that worked."""
        try:
            make_segment(path, file)
            self.trim()
        except OSError as error:
            with self._writing:
                self._give_up_writing(error)
            return False
        with self._refreshing:
            self._refresh()
        return True

    def lock_for(self, file: bytes) -> Path:
        """Lock file to hold while a whole file is fetched, so that two processes do not both fetch it."""
        return self._folder / "locks" / file.hex()[:2]

    def trim(self, room: int = 0) -> list[str]:
        """Remove least recently used segments until the rest and `room` bytes fit. Returns the removed names."""
        with exclusive_lock(self._folder / "lock"):
            kept = sorted(segments_on_disk(self._segments_folder), key=lambda one: one.used_at)
            total = sum(one.disk_bytes for one in kept)
            going: list[SegmentOnDisk] = []
            while kept and total > self.limit_bytes - room:
                going.append(kept.pop(0))
                total -= going[-1].disk_bytes
            return remove_segments(going)

    def prune(self, older_than: timedelta) -> list[str]:
        """Remove what was not read for so long. Returns the removed names."""
        limit = time.time() - older_than.total_seconds()
        with exclusive_lock(self._folder / "lock"):
            old = [one for one in segments_on_disk(self._segments_folder) if one.used_at <= limit]
            return remove_segments(old) + remove_earlier_layout(self._folder, limit)

    def size(self) -> int:
        """Size on disk in bytes."""
        return sum(one.disk_bytes for one in segments_on_disk(self._segments_folder))

    def close(self) -> None:
        """Let other processes use the blocks of this one at once. The cache can be used afterwards."""
        with self._writing:
            self._write()
            writer, self._writer = self._writer, None
            if writer is not None and writer.process == os.getpid():
                with suppress(OSError):
                    writer.finish()
        self._settle()

    @property
    def _segments_folder(self) -> Path:
        return self._folder / "segments"

    def _find(self, key: BlockKey) -> BlockLocation | None:
        location = self._locations.get(key)
        interval = _REFRESH_SECONDS_AFTER_MISS if location is None else _REFRESH_SECONDS
        if time.monotonic() - self._refreshed_at > interval:
            with self._refreshing:
                if time.monotonic() - self._refreshed_at > interval:
                    self._refresh()
            location = self._locations.get(key)
        return location

    def _refresh(self) -> None:
        """Read from the indexes what other processes added and removed."""
        self._refreshed_at = time.monotonic()
        writer = self._writer
        here = {one.path.name: one.path for one in segments_on_disk(self._segments_folder)}
        for name, path in here.items():
            segment = self._segments.setdefault(name, Segment(path))
            # Of the segment that this process writes, memory knows more than the index on disk.
            if writer is None or segment is not writer.segment:
                with suppress(OSError):
                    self._locations.update(segment.new_locations())
        gone = {self._segments.pop(name) for name in self._segments.keys() - here.keys()}
        if gone:
            for key in [key for key, location in self._locations.copy().items() if location.segment in gone]:
                self._locations.pop(key, None)

    def _write(self) -> None:
        blocks, self._unwritten, self._unwritten_bytes = self._unwritten, [], 0
        try:
            if blocks:
                self._locations.update(self._writer_with_room().append(blocks))
        except OSError as error:
            self._give_up_writing(error)

    def _writer_with_room(self) -> SegmentWriter:
        writer = self._writer
        if writer is not None and writer.process != os.getpid():
            writer, self._is_seal_due = None, False  # a fork: writer and timer are the parent's
        if writer is not None and writer.has_room(self._segment_bytes):
            return writer
        self._writer = None
        if writer is not None:
            writer.finish()
        self._settle()
        self.trim(self._segment_bytes)
        earlier = list(self._segments.values())
        writer = SegmentWriter.continued(earlier, self._segment_bytes // 2)
        self._writer = writer = writer or SegmentWriter.created(self._segments_folder)
        self._segments[writer.segment.path.name] = writer.segment
        return writer

    def _seal_soon(self) -> None:
        if not self._is_seal_due:
            self._is_seal_due = True
            timer = threading.Timer(_SEAL_SECONDS, self._seal)
            timer.daemon = True
            timer.start()

    def _seal(self) -> None:
        with self._writing:
            self._is_seal_due = False
            self._write()
            if self._writer is not None and self._writer.process == os.getpid():
                try:
                    self._writer.seal()
                except OSError as error:
                    self._give_up_writing(error)

    def _settle(self) -> None:
        """Make old segments durable: the kernel has written them by now, so fdatasync is cheap."""
        for segment in list(self._segments.values()):
            seal = segment.seal
            if seal and seal.boot == this_boot() and seal.modified / 1e9 < time.time() - _SETTLED_SECONDS:
                with suppress(OSError):
                    make_durable(segment)

    def _give_up_writing(self, error: OSError) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        self._pause_until = time.monotonic() + _PAUSE_SECONDS
        if not self._has_warned:
            self._has_warned = True
            why = "its disk is full" if is_disk_full(error) else error.strerror or str(error)
            self._log_line(f"Data is read without being kept for later: {self._folder} cannot be written ({why}).")


def _segment_bytes(limit_bytes: int) -> int:
    """Segment size: few enough segments to keep all open, enough of them to evict in small steps."""
    usual = min(_USUAL_SEGMENT_BYTES, limit_bytes // _LEAST_SEGMENTS)
    return max(usual, limit_bytes // _MOST_SEGMENTS, _LEAST_SEGMENT_BYTES)


def cache_name(store_identity: str, file: SourceFile) -> bytes:
    """Name of a version of a file in the cache: 16 bytes."""
    version = f"{store_identity}\0{file.key}\0{file.etag}\0{file.size}".encode("utf-8", "surrogatepass")
    return blake2b(version, digest_size=16).digest()


LIMIT_SETTING = "RUNYARD_DATA_CACHE_BYTES"
_MOST_BYTES = 20 * 1024**3


def cache_limit(folder: Path) -> int:
    """Size limit of the data cache in bytes: RUNYARD_DATA_CACHE_BYTES, else the lesser of 20 GB and a quarter of the
    disk. Raises InvalidArgument."""
    setting = os.environ.get(LIMIT_SETTING, "")
    if setting:
        if not (setting.isascii() and setting.isdigit()):
            raise InvalidArgument(f"{LIMIT_SETTING} is {setting!r}.", hint="Set it to a number of bytes.")
        return int(setting)
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return min(_MOST_BYTES, shutil.disk_usage(folder).total // 4)


_ABANDONED_SECONDS = 3600.0


@dataclass(frozen=True)
class SegmentOnDisk:
    """Segment on disk, with what eviction needs to know."""

    path: Path
    used_at: float
    disk_bytes: int


def segments_on_disk(folder: Path) -> Iterator[SegmentOnDisk]:
    """Yield the segments that have an index. Old files without one were left by a killed process and are removed."""
    stats = _stats(folder)
    for name, stat in stats.items():
        index = stats.get(name + INDEX_SUFFIX)
        if index is not None:
            yield SegmentOnDisk(folder / name, index.st_mtime, (stat.st_blocks + index.st_blocks) * 512)
        elif not _is_index_of_one(name, stats) and stat.st_mtime < time.time() - _ABANDONED_SECONDS:
            (folder / name).unlink(missing_ok=True)


def remove_segments(segments: Sequence[SegmentOnDisk]) -> list[str]:
    """Remove segments and return their names. A process that has one open can still read it."""
    for segment in segments:
        for path in (index_of(segment.path), segment.path):
            path.unlink(missing_ok=True)
    return [segment.path.name for segment in segments]


def remove_earlier_layout(folder: Path, limit: float) -> list[str]:
    """Remove entries of the cache layout before segments (a folder per address) not used since `limit`."""
    removed = []
    for content in folder.glob("*/content"):
        with suppress(OSError):
            if content.stat().st_mtime <= limit:
                shutil.rmtree(content.parent)
                content.parent.with_name(f"{content.parent.name}.lock").unlink(missing_ok=True)
                removed.append(content.parent.name)
    return removed


def _is_index_of_one(name: str, stats: Mapping[str, os.stat_result]) -> bool:
    return name.endswith(INDEX_SUFFIX) and name.removesuffix(INDEX_SUFFIX) in stats


def _stats(folder: Path) -> dict[str, os.stat_result]:
    found = {}
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                found[entry.name] = entry.stat(follow_symlinks=False)
    return found
