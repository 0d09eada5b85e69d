import contextlib
import fcntl
import json
import os
import shutil
from pathlib import Path

from runyard.core.disk import write_all
from runyard.core.durable_files import replacement
from runyard.core.errors import InvalidArgument, Json
from runyard.core.records.launch_plan import LaunchPlan, node_task_name
from runyard.core.run_folders import mounts_root, scripts_root, task_folder_name
from runyard.node.processes.procfs import ProcessId

_OLD_RESERVE, _ROOM = ".reserve", ".room-"
RESERVE_BYTES = 1 << 20
TASK_VARIABLE = "RUNYARD_PART"
"""Environment variable by which the processes of a task are found, wherever they are in the process tree."""


class TaskFolder:
    """Paths and small files of one node task.

    `root`, `attempts/TASK/` of the home, is private: the plan with its tokens, the lock, reports. `scripts` is what the
    task's processes read and write. Only the task's living supervisor holds the flock on `lock`.
    """

    def __init__(self, home: Path, part: str) -> None:
        self.home, self.part = home, part
        self.root = home / "attempts" / task_folder_name(part)
        self.lock = self.root / "lock"
        # A task that was started by version 0.1.0 or earlier has everything in one folder.
        self.scripts = self.root if (self.root / "work").is_dir() else scripts_root(home) / self.root.name
        self.work = self.scripts / "work"
        self.std = self.scripts / "std"
        self.journals = self.scripts / "journals"
        self.uploads = self.scripts / "uploads"
        self.data = self.scripts / "data"
        self.mounts = mounts_root(home) / self.root.name
        self.node_log = self.std / "65_job_prep.txt"
        """The node's messages about preparation and data; part of the run's logs."""
        self.rank_file = self.scripts / "rank.json"
        """Read by the ranks that a launcher starts on this node."""

    def name_node_log(self, plan: LaunchPlan) -> None:
        """Name the node's log after the node if the run has several: no two nodes write one log of a run."""
        if len(plan.nodes) > 1:
            self.node_log = self.std / f"65_job_prep-{plan.here.name.replace('/', '_') or plan.node}.txt"

    def exists(self) -> bool:
        """True from the arrival of the plan until the service has acknowledged the task's end."""
        return (self.root / "plan.json").exists()

    def make_room(self) -> None:
        self.scripts.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (self.work, self.std, self.journals, self.uploads):
            folder.mkdir(exist_ok=True)

    def hold_reserve(self, processes: int) -> None:
        """Reserve disk space for the report of the task's end, whatever the script writes. OSError when there is none.

        If there is more space, reserve some for the last lines of that many processes, which use it themselves.
        """
        _reserve_file(self.lock)  # its content means nothing, and one file less is made for each run
        with contextlib.suppress(OSError):
            for number in range(processes):
                _reserve_file(self.journals / f"{_ROOM}{number}")

    def free_reserve(self) -> None:
        self.free_own_reserve()
        # Not by Path.glob: it compiles an expression in each supervisor, 4 % of its CPU for a short run.
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(self.journals):
                if name.startswith(_ROOM):
                    (self.journals / name).unlink(missing_ok=True)

    def free_own_reserve(self) -> None:
        """Free the space for the report; processes that still run keep theirs."""
        with contextlib.suppress(FileNotFoundError):
            os.truncate(self.lock, 0)
        (self.root / _OLD_RESERVE).unlink(missing_ok=True)

    def free_bytes(self) -> int:
        """Free space of the disk that the script works on."""
        found = os.statvfs(self.scripts)
        return found.f_bavail * found.f_frsize

    def read(self, name: str) -> Json | None:
        """Read a JSON file; None when there is none."""
        try:
            body: Json = json.loads((self.root / name).read_bytes())
        except FileNotFoundError:
            return None
        return body

    def write(self, name: str, body: Json, *, durable: bool = False) -> None:
        """Replace a JSON file atomically; `durable` also syncs it to disk."""
        _write_atomically(self.root / name, body, durable=durable)

    def write_for_script(self, name: str, body: Json) -> None:
        """Write, atomically, a JSON file that processes of the task read."""
        _write_atomically(self.scripts / name, body)

    def take_lock(self) -> int | None:
        """Lock the task and return the descriptor that holds the lock. None while another process has it."""
        lock = os.open(self.lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        return lock

    def supervisor(self) -> ProcessId | None:
        """The supervisor that wrote `supervisor.json` last, if it is alive."""
        signed = self.read("supervisor.json")
        known = None if signed is None else ProcessId(signed["pid"], signed["started"])
        return known if known is not None and known.is_alive() else None

    def was_supervised(self) -> bool:
        return (self.root / "supervisor.json").exists()

    def request_cancel(self, grace_seconds: float, end_as: str = "canceled") -> None:
        """Have the living supervisor, or the next one, end the task and report it so. Does nothing if it is gone."""
        with contextlib.suppress(FileNotFoundError):
            self.write("cancel.json", {"grace": grace_seconds, "end_as": end_as})

    def delete(self) -> None:
        """Delete the folders, by a rename first. Does nothing when they are gone; `gc` removes what a kill leaves."""
        # `root` last: without it nobody would know that `scripts` is still to be deleted.
        for folder in dict.fromkeys((self.scripts, self.root)):
            with contextlib.suppress(FileNotFoundError):
                folder.rename(_deleted_name(folder))
        for folder in {self.scripts, self.root}:
            shutil.rmtree(_deleted_name(folder), ignore_errors=True)


def _reserve_file(file: Path) -> None:
    descriptor = os.open(file, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, RESERVE_BYTES)
    finally:
        os.close(descriptor)


def list_task_folders(home: Path) -> list[TaskFolder]:
    """Folders of all tasks that have a plan on this node and whose end is not acknowledged."""
    found = []
    for plan in sorted((home / "attempts").glob("[!.]*/plan.json")):
        with contextlib.suppress(OSError, ValueError, KeyError, InvalidArgument):  # deleted meanwhile, or not ours
            body = json.loads(plan.read_bytes())
            found.append(TaskFolder(home, node_task_name(body["attempt_id"], body.get("node", 0))))
    return found


def _deleted_name(folder: Path) -> Path:
    return folder.with_name(f".gone-{folder.name}")


def _write_atomically(path: Path, body: Json, *, durable: bool = False) -> None:
    with replacement(path, mode=0o600) as fd:
        write_all(fd, json.dumps(body).encode())  # `dump` leaves reference cycles, and is slower
        if durable:
            os.fsync(fd)


OUTPUTS = "outputs"


def make_outputs_folder(folder: TaskFolder, plan: LaunchPlan) -> None:
    """Make ./outputs: a folder, or, where nodes are slots of one machine, on all but node 0 a link to node 0's.

    Scripts for SDK v1 expect it: all nodes of a run worked on one mounted share, and one rank fetched or wrote files
    that the others waited for.
    """
    own = folder.work / OUTPUTS
    if plan.node == 0 or not plan.shares_outputs:
        own.mkdir(exist_ok=True)
        return
    first = TaskFolder(folder.home, plan.attempt_id).work
    # Node 0 may not have begun. If it has ended, its folder is not made again: this task is about to be stopped.
    for missing in (first, first / OUTPUTS):
        with contextlib.suppress(FileExistsError, FileNotFoundError):
            os.mkdir(missing)
    with contextlib.suppress(FileExistsError):
        own.symlink_to(first / OUTPUTS)


def has_shared_outputs(folder: TaskFolder) -> bool:
    """Tell whether another task uploads ./outputs. A script may have replaced the link by a folder of its own."""
    return (folder.work / OUTPUTS).is_symlink()


def list_ranks(plan: LaunchPlan) -> list[tuple[int, str, str]]:
    """Rank, role and log of every rank on the plan's node."""
    own = [(spec.rank, spec.role, spec.log) for spec in plan.here.processes if spec.role != "launcher"]
    return own + [(rank, "worker", f"azureml-logs/{_rank_log_name(rank)}") for rank in plan.here.ranks]


def rank_log(folder: TaskFolder, rank: int) -> Path:
    """Log of a rank that a launcher started."""
    return folder.std / _rank_log_name(rank)


def _rank_log_name(rank: int) -> str:
    return f"70_driver_log_{rank}.txt"
