import os
import re
from pathlib import Path

from runyard.client import ServiceClient, quoted
from runyard.errors import AttemptOver, Conflict, RunyardError
from runyard.node.growing_file import GrowingFile, GrowingFiles

_PIECE_BYTES = 1 << 19
_LONGEST_LINE_BYTES = 64 << 20
_SUFFIX = ".jsonl"
_LOST = re.compile(r"lost-([0-9]{1,12})-[0-9A-Za-z-]{1,80}")


class JournalShipping:
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
        """Ask the service for the offsets of the journals. Raises ServiceAway."""
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
        """Send a piece of every changed journal. Raises ServiceAway; what was not acknowledged is sent again."""
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


def lost_lines(folder: Path) -> list[str]:
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


def met_full_disk(folder: Path) -> bool:
    """Tell whether a process of the run noted that a full disk ended it."""
    return any(folder.glob("full-*"))


def _run_of(name: str) -> str:
    return name.partition("~")[0]


def _whole_lines(journal: GrowingFile) -> bytes:
    """Next bytes up to a line end: the rest of the line comes with the next write, or never."""
    most = _PIECE_BYTES
    while True:
        piece = journal.read(most)
        end = piece.rfind(b"\n") + 1
        if end or len(piece) < most or most >= _LONGEST_LINE_BYTES:
            return piece[:end]
        most *= 8
