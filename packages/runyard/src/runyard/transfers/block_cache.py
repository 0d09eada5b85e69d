import errno
import fcntl
import hashlib
import os
import secrets
import shutil
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from runyard.environments.durable import locked, locked_if_free
from runyard.model.data import SourceFile
from runyard.transfers.cached_files import CachedFiles
from runyard.transfers.eviction import Kept, disk_bytes, kept_files, remove, remove_abandoned

_TRIM_TO = 0.9
_REPORT_BYTES = 16 << 20
_PAUSE_SECONDS = 30.0
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def _nothing(sentence: str) -> None:
    pass


class BlockCache:
    """Parts of files that runs read from afar, kept for later reads of all processes of this home.

    Holds about `limit_bytes` at most over all processes; what was not used for longest goes first. What cannot be
    written (a full disk) is not kept, which `say` is told once; nobody's reading fails of it.
    """

    def __init__(self, folder: Path, limit_bytes: int, say: Callable[[str], None] = _nothing) -> None:
        self._folder, self.limit_bytes, self._say = folder, limit_bytes, say
        self._shared = CachedFiles(folder / "shared")
        self._private: CachedFiles | None = None
        self._private_lock: tuple[Path, int] | None = None
        self._guard = threading.Lock()
        self._unreported = 0
        self._trimming = False
        self._has_said = False
        self._pause_until = 0.0

    def files_for(self, file: SourceFile) -> CachedFiles:
        """Where parts of it are kept. A file without an etag may be another tomorrow under the same name: what is read
        of it is for this process alone."""
        if file.etag:
            return self._shared
        with self._guard:
            if self._private is None:
                self._private = self._open_private()
            return self._private

    def keep(self, files: CachedFiles, name: str, data: bytes | memoryview) -> None:
        """Never raises: a part that cannot be kept is fetched again when it is needed."""
        if len(data) > self.limit_bytes or time.monotonic() < self._pause_until:
            return
        try:
            files.keep(name, data)
        except OSError as error:
            self.could_not_keep(error)
        else:
            self.account(len(data))

    def could_not_keep(self, error: OSError) -> None:
        self._pause_until = time.monotonic() + _PAUSE_SECONDS
        with self._guard:
            said, self._has_said = self._has_said, True
        if not said:
            why = "its disk is full" if error.errno in _FULL else error.strerror or str(error)
            self._say(f"Data is read without being kept for later: {self._folder} cannot be written ({why}).")

    def account(self, size: int) -> None:
        """So many bytes more are kept. Starts making room, beside the caller, when they are too many."""
        with self._guard:
            self._unreported += disk_bytes(size)
            due = self._unreported >= min(_REPORT_BYTES, self.limit_bytes // 16)
            if not due or self._trimming:
                return
            self._trimming = True
        if not self._report():
            self._trimming = False
            return
        threading.Thread(target=self._trim_beside, name="cache-trim", daemon=True).start()

    def lock_for(self, name: str) -> Path:
        """To be held while a file is fetched that is worth waiting for when another process fetches it."""
        return self._folder / "locks" / name

    def trim(self) -> list[str]:
        """Remove the least recently used parts until the rest fit; returns what went."""
        with locked(self._folder / "lock"):
            return self._trim()

    def prune(self, older_than: timedelta) -> list[str]:
        """Remove the parts that nobody read since then; returns what went."""
        limit = time.time() - older_than.total_seconds()
        with locked(self._folder / "lock"):
            remove_abandoned(self._folder / "private")
            kept = list(kept_files(self._folder / "shared"))
            old = [part for part in kept if part.used_at <= limit]
            _remove_all(old)
            self._write_total(sum(part.disk_bytes for part in kept) - sum(part.disk_bytes for part in old))
        self._remove_earlier_layout(limit)
        return [Path(part.link).name for part in old]

    def size(self) -> int:
        """Bytes on disk."""
        return sum(part.disk_bytes for part in self._all_kept())

    def close(self) -> None:
        """Let go of what only this process may use. What is shared stays."""
        with self._guard:
            held, self._private_lock, self._private = self._private_lock, None, None
        if held:
            shutil.rmtree(held[0], ignore_errors=True)
            os.close(held[1])

    def _trim(self) -> list[str]:
        remove_abandoned(self._folder / "private")
        kept = sorted(self._all_kept(), key=lambda part: part.used_at)
        total = sum(part.disk_bytes for part in kept)
        going = []
        if total > self.limit_bytes:
            for part in kept:
                if total <= self.limit_bytes * _TRIM_TO:
                    break
                going.append(part)
                total -= part.disk_bytes
        _remove_all(going)
        self._write_total(total)
        return [Path(part.link).name for part in going]

    def _trim_beside(self) -> None:
        try:
            self.trim()
        except OSError as error:
            self.could_not_keep(error)
        finally:
            self._trimming = False

    def _all_kept(self) -> list[Kept]:
        kept = list(kept_files(self._folder / "shared"))
        private = self._folder / "private"
        for folder in private.iterdir() if private.is_dir() else ():
            kept.extend(kept_files(folder))
        return kept

    def _report(self) -> bool:
        """Add what this process kept to what all did; True when that is too much."""
        with locked_if_free(self._folder / "lock") as is_free:
            if not is_free:
                return False  # told with the next one
            with self._guard:
                size, self._unreported = self._unreported, 0
            total = self._read_total()
            if total is None:
                return True
            self._write_total(total + size)
            return total + size > self.limit_bytes

    def _read_total(self) -> int | None:
        try:
            return int((self._folder / "bytes").read_bytes())
        except (OSError, ValueError):
            return None

    def _write_total(self, total: int) -> None:
        # Not beside and renamed: a torn number is counted anew.
        (self._folder / "bytes").write_bytes(b"%d" % total)

    def _open_private(self) -> CachedFiles:
        root = self._folder / "private" / secrets.token_hex(8)
        try:
            root.mkdir(parents=True)
            fd = os.open(root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(fd, fcntl.LOCK_EX)
            self._private_lock = root, fd
        except OSError:
            pass  # nothing can be kept there either, and `keep` says so
        return CachedFiles(root)

    def _remove_earlier_layout(self, limit: float) -> None:
        """Before parts there were whole files, each in a folder of its own."""
        for content in self._folder.glob("*/content"):
            if content.stat().st_mtime <= limit:
                shutil.rmtree(content.parent, ignore_errors=True)
                content.parent.with_name(f"{content.parent.name}.lock").unlink(missing_ok=True)


def file_name(store_identity: str, file: SourceFile) -> str:
    """The name of a file's parts in a cache: another for other bytes, of any length of key."""
    told = repr((store_identity, file.key, file.etag, file.size)).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(told, digest_size=16).hexdigest()


def _remove_all(parts: list[Kept]) -> None:
    for part in parts:
        remove(part)
