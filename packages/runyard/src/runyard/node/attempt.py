import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
from pathlib import Path

from runyard.errors import InvalidArgument, Json
from runyard.model.plan import LaunchPlan, part_name
from runyard.node.processes import ProcessId

_SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*")
_LONGEST_NAME = 200
_RESERVE = ".reserve"
RESERVE_BYTES = 1 << 20
SCRIPT_FOLDERS = ("work", "uploads", "data")
"""Of a part's folders, those that its script writes to as it likes. Beside them lie tokens."""
PART_VARIABLE = "RUNYARD_PART"
"""By this variable the processes of a part are known, wherever they hang: parts of one machine end their own."""


class AttemptFolder:
    """What lies where for one part of an attempt on its node, `attempts/PART/` of the home folder.

    The flock on `lock` is held by the part's living supervisor and by nobody else.
    """

    def __init__(self, home: Path, part: str) -> None:
        self.home, self.part = home, part
        self.root = home / "attempts" / folder_name(part)
        self.lock = self.root / "lock"
        self.work = self.root / "work"
        self.std = self.root / "std"
        self.journals = self.root / "journals"
        self.uploads = self.root / "uploads"
        self.data = self.root / "data"
        self.mounts = home / "mounts" / self.root.name
        self.node_log = self.std / "65_job_prep.txt"
        """What the node has to say about the run's preparation and data; shown in the run's history."""
        self.supervisor_log = self.root / "supervisor.log"
        self.rank_file = self.root / "rank.json"
        """What the ranks that a launcher starts on this node need to know."""

    @classmethod
    def of_plan(cls, home: Path, plan: LaunchPlan) -> "AttemptFolder":
        """Its node's own log is named after the node where the run has several: no two write one log of a run."""
        folder = cls(home, plan.part)
        if len(plan.nodes) > 1:
            folder.node_log = folder.std / f"65_job_prep-{plan.here.name.replace('/', '_') or plan.node}.txt"
        return folder

    def exists(self) -> bool:
        """True once the plan is here and until the end has been acknowledged."""
        return (self.root / "plan.json").exists()

    def make_room(self) -> None:
        for folder in (self.work, self.std, self.journals, self.uploads):
            folder.mkdir(parents=True, exist_ok=True)

    def hold_reserve(self) -> None:
        """Keep room on the disk for the attempt's own end, whatever the script writes. OSError when there is none."""
        fd = os.open(self.root / _RESERVE, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(fd, 0, RESERVE_BYTES)
        finally:
            os.close(fd)

    def free_reserve(self) -> None:
        (self.root / _RESERVE).unlink(missing_ok=True)

    def free_bytes(self) -> int:
        """Room on the attempt's disk."""
        found = os.statvfs(self.root)
        return found.f_bavail * found.f_frsize

    def read(self, name: str) -> Json | None:
        """The JSON object in that file, or None when there is no such file."""
        try:
            body: Json = json.loads((self.root / name).read_bytes())
        except FileNotFoundError:
            return None
        return body

    def write(self, name: str, body: Json, *, durable: bool = False) -> None:
        """Readers see the old or the new content, never a part; `durable` outlives a power cut too."""
        beside = self.root / f".{name}.{os.getpid()}"
        with beside.open("w", encoding="utf-8") as file:
            json.dump(body, file)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        beside.rename(self.root / name)

    def take_lock(self) -> int | None:
        """The descriptor that holds the attempt's lock from now on, or None while another process has it."""
        lock = os.open(self.lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        return lock

    def supervisor(self) -> ProcessId | None:
        """The supervisor that signed in last, if it is alive."""
        signed = self.read("supervisor.json")
        known = None if signed is None else ProcessId(signed["pid"], signed["started"])
        return known if known is not None and known.is_alive() else None

    def want_cancel(self, grace_seconds: float, end_as: str = "canceled") -> None:
        """The living supervisor, or the next one, ends the part and reports it so; quiet when the part is gone."""
        with contextlib.suppress(FileNotFoundError):
            self.write("cancel.json", {"grace": grace_seconds, "end_as": end_as})

    def delete(self) -> None:
        """Gone for every reader at once; quiet when gone."""
        leaving = self.root.with_name(f".gone-{self.root.name}")
        try:
            self.root.rename(leaving)
        except FileNotFoundError:
            return
        shutil.rmtree(leaving, ignore_errors=True)


def attempt_folders(home: Path) -> list[AttemptFolder]:
    """Every part that has been planned on this node and whose end has not yet been acknowledged."""
    found = []
    for plan in sorted((home / "attempts").glob("[!.]*/plan.json")):
        with contextlib.suppress(OSError, ValueError, KeyError, InvalidArgument):  # it went away, or is not ours
            body = json.loads(plan.read_bytes())
            found.append(AttemptFolder(home, part_name(body["attempt_id"], body.get("node", 0))))
    return found


def folder_name(part: str) -> str:
    """Of a part, below `attempts/`."""
    if not _SAFE.fullmatch(part):
        raise InvalidArgument(
            f"{part!r} is not the name of an attempt.", hint="Expected letters, digits, '_', '-' and '.'."
        )
    if len(part) <= _LONGEST_NAME:
        return part
    return f"{part[:120]}-{hashlib.sha256(part.encode()).hexdigest()[:32]}"
