import os
import re
from pathlib import Path

from runyard.client import ServiceClient, quoted
from runyard.core.errors import AttemptOver, Conflict, NotFound, RunyardError
from runyard.core.records.runs import RunId
from runyard.node.confined_files import open_beneath, stat_beneath
from runyard.node.processes.event_loop import now

LOG_PIECE_BYTES = 4 << 20
_ROUND_SECONDS = 0.2


class GrowingFile:
    """Reads a file as it grows, from the last offset.

    `was_rewritten` turns true, for good, when the file was replaced, truncated or changed before the offset.
    """

    def __init__(self, path: Path, root: Path | None = None) -> None:
        """`root`: the folder that the file must lie in after following links; its own by default."""
        self.path, self._root = path, root or path.parent
        self.offset = 0
        self.was_rewritten = False
        self._last_bytes = b""
        self._inode = 0

    def size(self) -> int:
        try:
            return stat_beneath(self.path, self._root).st_size
        except OSError:
            return 0

    def has_more(self) -> bool:
        return not self.was_rewritten and self.size() != self.offset

    def read(self, most: int) -> bytes:
        """Return the next bytes, b"" when there are none. The offset stays: see `advance`."""
        try:
            fd = open_beneath(self.path, self._root)
        except OSError:  # deleted, or made unreadable by the script
            return b""
        try:
            return self._read_checked(fd, most)
        except OSError:
            return b""
        finally:
            os.close(fd)

    def advance(self, piece: bytes) -> None:
        """Move the offset past `piece`, which `read` returned, or its beginning: it was sent."""
        self.offset += len(piece)
        self._last_bytes = (self._last_bytes + piece)[-_COMPARED_BYTES:]

    def resume(self, offset: int) -> None:
        """Continue at an offset that an earlier reader reached."""
        self.offset, self._last_bytes = offset, b""

    def _read_checked(self, fd: int, most: int) -> bytes:
        found = os.fstat(fd)
        self._inode = self._inode or found.st_ino
        kept = os.pread(fd, len(self._last_bytes), self.offset - len(self._last_bytes))
        if found.st_size < self.offset or found.st_ino != self._inode or kept != self._last_bytes:
            self.was_rewritten = True
            return b""
        return os.pread(fd, most, self.offset)


class LogShipper:
    """Sends the growing logs of a run to the service, piece by piece. `files` have the names that the run's logs have.

    A file that was rewritten is named once in `rewritten`, one that the service refuses in `refused`; neither is read
    again.
    """

    def __init__(self, run_id: RunId) -> None:
        self._address = f"/runs/{quoted(run_id)}/logs"
        self.files = GrowingFiles()
        self.rewritten: list[str] = []
        self.refused: dict[str, str] = {}

    def resume(self, client: ServiceClient) -> None:
        """Ask the service for the offsets of the logs. Raises ServiceUnavailable."""
        delivered = client.get(self._address)
        for name, file in self.files.all():
            file.resume(int(delivered.get(name, 0)))

    def ship(self, client: ServiceClient) -> None:
        """Send a piece of every changed file, or of as many as a short time allows; the others are first the next time.
        Raises ServiceUnavailable; what was not acknowledged is sent again."""
        until = now() + _ROUND_SECONDS
        for name, file in self.files.unsettled():
            if now() > until:
                return
            piece = b"" if name in self.refused else file.read(LOG_PIECE_BYTES)
            if piece:
                self._send(client, name, file, piece)
            if file.was_rewritten:
                self.rewritten.append(name)
            self.files.settled(name)
            if piece and file.has_more():
                self.files.changed(name, file.path)

    def _send(self, client: ServiceClient, name: str, file: GrowingFile, piece: bytes) -> None:
        try:
            client.post_bytes(f"{self._address}/{quoted(name)}?offset={file.offset}", piece)
        except AttemptOver:
            raise
        except Conflict:
            self.resume(client)
            return
        except NotFound:
            pass  # The run was deleted.
        except RunyardError as e:
            self.refused[name] = str(e)
        file.advance(piece)


_JOURNAL_PIECE_BYTES = 1 << 19
_LONGEST_LINE_BYTES = 64 << 20
_SUFFIX = ".jsonl"
_LOST = re.compile(r"lost-([0-9]{1,12})-[0-9A-Za-z-]{1,80}")


class JournalShipper:
    """Sends the journals of the run's processes: whole lines of `RUN_ID~RANK-PID-RANDOM.jsonl`, in order.

    A journal that the service refuses is skipped, and named in `refused`.
    """

    def __init__(self) -> None:
        self.files = GrowingFiles()
        self.refused: dict[str, str] = {}

    def changed(self, path: Path) -> None:
        name = path.name.removesuffix(_SUFFIX)
        if not path.name.endswith(_SUFFIX) or "~" not in name or name in self.refused:
            return
        if not _is_text(name):
            self.refused[ascii(name)] = "its name is not UTF-8."
            return
        self.files.changed(name, path)

    def resume(self, client: ServiceClient) -> None:
        """Ask the service for the offsets of the journals. Raises ServiceUnavailable."""
        for run_id in {_run_of(name) for name, _ in self.files.all() if name not in self.refused}:
            of_run = [(name, journal) for name, journal in self.files.all() if _run_of(name) == run_id]
            try:
                delivered = client.get(f"/runs/{quoted(run_id)}/journals")
            except AttemptOver:
                raise
            except RunyardError as e:
                for name, _ in of_run:
                    self._refuse(name, e)
                continue
            for name, journal in of_run:
                journal.resume(int(delivered.get(name, 0)))

    def ship(self, client: ServiceClient) -> None:
        """Send a piece of every changed journal. Raises ServiceUnavailable; what was not acknowledged is sent again."""
        for name, journal in self.files.unsettled():
            piece = _whole_lines(journal)
            if piece:
                self._send(client, name, journal, piece)
            if not piece or not journal.has_more():
                self.files.settled(name)

    def _send(self, client: ServiceClient, name: str, journal: GrowingFile, piece: bytes) -> None:
        address = f"/runs/{quoted(_run_of(name))}/journals/{quoted(name)}?offset={journal.offset}"
        try:
            client.post_bytes(address, piece)
            journal.advance(piece)
        except AttemptOver:
            raise
        except Conflict:
            self.resume(client)
        except RunyardError as e:
            self._refuse(name, e)

    def _refuse(self, name: str, error: RunyardError) -> None:
        self.refused[name] = str(error)
        self.files.settled(name)


def _is_text(name: str) -> bool:
    try:
        return bool(name.encode())
    except UnicodeEncodeError:
        return False


def warn_of_lost_lines(folder: Path) -> list[str]:
    """Warnings about lines that the run's processes could not write; they note it by names of empty files."""
    names = os.listdir(folder)
    counts = [int(found[1]) for name in names if (found := _LOST.fullmatch(name))]
    warnings = []
    if counts:
        warnings.append(f"{sum(counts)} logged points were lost: the disk was full when the script ended.")
    if any(name.startswith("waiting-") for name in names):
        warnings.append(
            "A process of the run was killed, or left by os._exit, while points that it had logged waited for room on "
            "the disk. They are lost; how many is not known."
        )
    return warnings


def noted_full_disk(folder: Path) -> bool:
    """Tell whether a process of the run noted that a full disk ended it."""
    return any(folder.glob("full-*"))


def _run_of(name: str) -> str:
    return name.partition("~")[0]


def _whole_lines(journal: GrowingFile) -> bytes:
    """Next bytes up to a line end: the rest of the line comes with the next write, or never."""
    most = _JOURNAL_PIECE_BYTES
    while True:
        piece = journal.read(most)
        end = piece.rfind(b"\n") + 1
        if end or len(piece) < most or most >= _LONGEST_LINE_BYTES:
            return piece[:end]
        most *= 8


_COMPARED_BYTES = 64


class GrowingFiles:
    """Growing files by name, with those that may have unread bytes."""

    def __init__(self) -> None:
        self._files: dict[str, GrowingFile] = {}
        self._changed: dict[str, None] = {}

    def changed(self, name: str, path: Path, root: Path | None = None) -> None:
        if name not in self._files:
            self._files[name] = GrowingFile(path, root)
        if not self._files[name].was_rewritten:
            self._changed[name] = None

    def settled(self, name: str) -> None:
        """Mark a file as read to its end."""
        self._changed.pop(name, None)

    def find(self, name: str) -> GrowingFile | None:
        return self._files.get(name)

    def all(self) -> list[tuple[str, GrowingFile]]:
        return list(self._files.items())

    def unsettled(self) -> list[tuple[str, GrowingFile]]:
        return [(name, self._files[name]) for name in self._changed]

    @property
    def pending(self) -> bool:
        return bool(self._changed)

    def marks(self) -> dict[str, int]:
        """Current sizes of files with unread bytes; see `reached`."""
        return {name: self._files[name].size() for name in self._changed}

    def reached(self, marks: dict[str, int]) -> bool:
        """Tell whether everything that `marks` counted has been read."""
        return all(name not in self._changed or self._files[name].offset >= mark for name, mark in marks.items())
