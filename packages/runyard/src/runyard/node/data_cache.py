import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

from runyard.environments.durable import locked, locked_if_free, write_beside
from runyard.errors import DataFailed, InvalidArgument
from runyard.node.web import CHUNK_BYTES, Fetched, Web
from runyard.planning.data_layout import shown

MOST_BYTES = 20 * 1024**3
LIMIT_SETTING = "RUNYARD_DATA_CACHE_BYTES"
Say = Callable[[str], None]


class DataCache:
    """Web addresses fetched once for all runs of this machine, within a bound; least recently used ones go first.

    The bound is `limit_bytes`, else RUNYARD_DATA_CACHE_BYTES, else 20 GB or a quarter of the disk, whichever is less.
    Safe to use from any number of processes.
    """

    def __init__(self, root: Path, limit_bytes: int | None = None) -> None:
        self._root = root
        self._limit_bytes = limit_bytes

    @contextmanager
    def file(self, url: str, web: Web, say: Say) -> Iterator[Path]:
        """A read-only file with the address's bytes, which stays while the context is open.
        What was fetched before is asked for again only if the server has a newer one. Raises DataFailed."""
        entry = _Entry(self._root, url)
        with locked(entry.lock, lambda: say(f"Another run is fetching {shown(url)}; waiting for it.")):
            try:
                yield entry.current(web, say)
            except OSError as error:
                raise DataFailed(
                    f"{shown(url)} could not be kept in {self._root}: {error.strerror or error}.",
                    hint="Free space with `runyard gc` or set RUNYARD_HOME to a folder on another disk.",
                ) from error

    def trim(self) -> list[str]:
        """Remove the least recently used entries until the rest fit; returns their addresses."""
        used = sorted(self._entries(), key=lambda entry: entry[0])
        excess = sum(size for _, size, _ in used) - self._limit()
        removed = []
        for _, size, folder in used:
            if excess <= 0:
                break
            if address := _removed(folder):
                removed.append(address)
                excess -= size
        return removed

    def prune(self, older_than: timedelta) -> list[str]:
        """Remove the entries that no run asked for since then; returns their addresses."""
        limit = time.time() - older_than.total_seconds()
        used = list(self._entries())
        return [address for used_at, _, folder in used if used_at <= limit and (address := _removed(folder))]

    def _entries(self) -> Iterator[tuple[float, int, Path]]:
        for folder in self._root.glob("*/"):
            try:
                yield (folder / "facts.json").stat().st_mtime, (folder / "content").stat().st_size, folder
            except OSError:
                continue  # another process is removing or fetching it

    def _limit(self) -> int:
        if self._limit_bytes is not None:
            return self._limit_bytes
        setting = os.environ.get(LIMIT_SETTING, "")
        if setting and not setting.isdigit():
            raise InvalidArgument(f"{LIMIT_SETTING} is {setting!r}.", hint="Set it to a number of bytes.")
        return int(setting) if setting else min(MOST_BYTES, shutil.disk_usage(self._root).total // 4)


def _removed(folder: Path) -> str | None:
    """The address that was kept there; None when a run is reading it or another process was first."""
    with locked_if_free(folder.with_name(f"{folder.name}.lock")) as free:
        if not free:
            return None
        try:
            address = shown(json.loads((folder / "facts.json").read_bytes())["url"])
        except FileNotFoundError:
            return None
        shutil.rmtree(folder)
        return address


class _Entry:
    """One address in the cache. Only the holder of `lock` touches its folder."""

    def __init__(self, root: Path, url: str) -> None:
        key = hashlib.sha256(url.encode()).hexdigest()[:32]
        self._url = url
        self._folder = root / key
        self._content = self._folder / "content"
        self._facts = self._folder / "facts.json"
        self.lock = root / f"{key}.lock"

    def current(self, web: Web, say: Say) -> Path:
        known = self._known()
        self._folder.mkdir(parents=True, exist_ok=True)
        partial = self._folder / "partial"
        partial.unlink(missing_ok=True)  # of a process that was killed; it may be read-only already
        if known and not (known.etag or known.last_modified):
            self._touch()
            return self._content
        try:
            fetched = web.fetch(self._url, partial, known, say)
        except DataFailed as error:
            if known is None:
                raise
            say(f"{error.problem} The copy fetched before is used.")
            fetched = None
        finally:
            if known is not None:
                self._touch()
        if fetched:
            say(f"Fetched {shown(self._url)}: {fetched.size} bytes, sha256 {fetched.sha256}.")
            self._keep(partial, fetched)
        return self._content

    def _known(self) -> Fetched | None:
        """What is here, if it is still what was fetched: by size and time, else by its hash."""
        try:
            facts = json.loads(self._facts.read_bytes())
            mtime = facts.pop("mtime")
            del facts["url"]
            known = Fetched(**facts)
            stat = self._content.stat()
        except (OSError, ValueError, KeyError, TypeError):
            return None
        if stat.st_size != known.size:
            return None
        return known if stat.st_mtime_ns == mtime or _sha256(self._content) == known.sha256 else None

    def _keep(self, partial: Path, fetched: Fetched) -> None:
        # Facts about other bytes must not outlive them.
        self._facts.unlink(missing_ok=True)
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.chmod(0o444)
        os.replace(partial, self._content)
        facts = {**asdict(fetched), "url": self._url, "mtime": self._content.stat().st_mtime_ns}
        write_beside(self._facts, json.dumps(facts).encode())

    def _touch(self) -> None:
        os.utime(self._facts)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
