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
from runyard.run_folders import mounts_root, scripts_root

_SAFE = re.compile(r"\w[\w.\-]*")
_LONGEST_NAME_BYTES = 200
_RESERVE, _ROOM = ".reserve", ".room-"
RESERVE_BYTES = 1 << 20
SCRIPT_FOLDERS = ("work", "uploads", "data")
"""Of a part's folders, those that its script writes to as it likes."""
PART_VARIABLE = "RUNYARD_PART"
"""By this variable the processes of a part are known, wherever they hang: parts of one machine end their own."""


class AttemptFolder:
    """What lies where for one part of an attempt on its node.

    `root`, `attempts/PART/` of the home, is private: the plan with its tokens, the lock, reports. `scripts` is what the
    part's processes enter and write. The flock on `lock` is held by the part's living supervisor and by nobody else.
    """

    def __init__(self, home: Path, part: str) -> None:
        self.home, self.part = home, part
        self.root = home / "attempts" / folder_name(part)
        self.lock = self.root / "lock"
        # A part that 0.1.0 or an earlier version began has everything in one folder.
        self.scripts = self.root if (self.root / "work").is_dir() else scripts_root(home) / self.root.name
        self.work = self.scripts / "work"
        self.std = self.scripts / "std"
        self.journals = self.scripts / "journals"
        self.uploads = self.scripts / "uploads"
        self.data = self.scripts / "data"
        self.mounts = mounts_root(home) / self.root.name
        self.node_log = self.std / "65_job_prep.txt"
        """What the node has to say about the run's preparation and data; shown in the run's history."""
        self.supervisor_log = self.root / "supervisor.log"
        self.rank_file = self.scripts / "rank.json"
        """What the ranks that a launcher starts on this node need to know."""

    def name_node_log(self, plan: LaunchPlan) -> None:
        """Name the node's own log after the node where the run has several: no two write one log of a run."""
        if len(plan.nodes) > 1:
            self.node_log = self.std / f"65_job_prep-{plan.here.name.replace('/', '_') or plan.node}.txt"

    def exists(self) -> bool:
        """True once the plan is here and until the end has been acknowledged."""
        return (self.root / "plan.json").exists()

    def make_room(self) -> None:
        self.scripts.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (self.work, self.std, self.journals, self.uploads):
            folder.mkdir(exist_ok=True)

    def hold_reserve(self, processes: int) -> None:
        """Keep room on the disk for the attempt's own end, whatever the script writes. OSError when there is none.

        If there is more, it is held for the last lines of that many processes, which save them there themselves.
        """
        _hold(self.root / _RESERVE)
        with contextlib.suppress(OSError):
            for number in range(processes):
                _hold(self.journals / f"{_ROOM}{number}")

    def free_reserve(self) -> None:
        self.free_own_reserve()
        for file in self.journals.glob(f"{_ROOM}*"):
            file.unlink(missing_ok=True)

    def free_own_reserve(self) -> None:
        """Free what no process of the part needs, while they go on."""
        (self.root / _RESERVE).unlink(missing_ok=True)

    def free_bytes(self) -> int:
        """Room on the disk that the script works on."""
        found = os.statvfs(self.scripts)
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
        _write_whole(self.root / name, body, durable=durable)

    def write_for_script(self, name: str, body: Json) -> None:
        """A file that processes of the part read. Whole, as `write`."""
        _write_whole(self.scripts / name, body)

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

    def was_supervised(self) -> bool:
        return (self.root / "supervisor.json").exists()

    def want_cancel(self, grace_seconds: float, end_as: str = "canceled") -> None:
        """The living supervisor, or the next one, ends the part and reports it so; quiet when the part is gone."""
        with contextlib.suppress(FileNotFoundError):
            self.write("cancel.json", {"grace": grace_seconds, "end_as": end_as})

    def delete(self) -> None:
        """Gone for every reader at once; quiet when gone. What a kill leaves of it is removed by `gc`."""
        # The script's side first: without the private one nobody would know that it is still to go.
        for folder in dict.fromkeys((self.scripts, self.root)):
            with contextlib.suppress(FileNotFoundError):
                folder.rename(_leaving(folder))
        for folder in {self.scripts, self.root}:
            shutil.rmtree(_leaving(folder), ignore_errors=True)


def _hold(file: Path) -> None:
    descriptor = os.open(file, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, RESERVE_BYTES)
    finally:
        os.close(descriptor)


def attempt_folders(home: Path) -> list[AttemptFolder]:
    """Every part that has been planned on this node and whose end has not yet been acknowledged."""
    found = []
    for plan in sorted((home / "attempts").glob("[!.]*/plan.json")):
        with contextlib.suppress(OSError, ValueError, KeyError, InvalidArgument):  # it went away, or is not ours
            body = json.loads(plan.read_bytes())
            found.append(AttemptFolder(home, part_name(body["attempt_id"], body.get("node", 0))))
    return found


def _leaving(folder: Path) -> Path:
    return folder.with_name(f".gone-{folder.name}")


def _write_whole(path: Path, body: Json, *, durable: bool = False) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(beside, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
        file.write(json.dumps(body))  # `dump` leaves cycles, and is slower
        if durable:
            file.flush()
            os.fsync(file.fileno())
    beside.rename(path)


def folder_name(part: str) -> str:
    """Of a part, below `attempts/`."""
    if not _SAFE.fullmatch(part):
        raise InvalidArgument(
            f"{part!r} is not the name of an attempt.", hint="Expected letters, digits, '_', '-' and '.'."
        )
    name = part.encode()
    if len(name) <= _LONGEST_NAME_BYTES:
        return part
    return f"{name[:120].decode(errors='ignore')}-{hashlib.sha256(name).hexdigest()[:32]}"
