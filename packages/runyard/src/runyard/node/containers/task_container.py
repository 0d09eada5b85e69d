import contextlib
import hashlib
import os
import re
import secrets
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runyard.core.errors import EnvironmentFailed, Json
from runyard.core.records.environments import FailureCause
from runyard.core.records.launch_plan import LaunchPlan
from runyard.environments.containers.containers import Mount
from runyard.environments.containers.engine import ContainerEngine
from runyard.environments.containers.failures import EngineRefused
from runyard.environments.images.built_images import local_engine
from runyard.node.containers.markers import delete_marker, write_marker
from runyard.node.containers.spec import (
    ContainerProgram,
    StarterFiles,
    container_spec,
    open_to_user,
    starter_config,
    task_mounts,
    write_starter_files,
)
from runyard.node.containers.supervisor import ContainerSupervisor
from runyard.node.processes.event_loop import EventLoop
from runyard.node.processes.forked_task import ForkedTask, Notify
from runyard.node.task_folder import TaskFolder, rank_log

_NEVER_STARTED = 127 << 8
_MOST_WORDS = 20
StartForkedTask = Callable[[Callable[[Notify], Json]], ForkedTask]


@dataclass(frozen=True)
class ContainerSetting:
    """What the container of a task needs to know."""

    folder: TaskFolder
    plan: LaunchPlan
    image: str
    python: str
    sdk: Path
    data: Sequence[Mount] = ()
    served: Sequence[str] = ()
    """Mount points that a mount process of this machine serves."""


@dataclass
class StarterEvents:
    """What the starter of a container has reported so far."""

    has_started: bool = False
    has_ended: bool = False
    """No process is left in the container."""
    asked: int | None = None
    """Signal by which the container was asked to stop from outside."""
    out_of_memory_kills: int = 0
    not_started: dict[str, str] = field(default_factory=dict)
    """Why a process could not be started, by name of the process; "-" stands for all."""
    killed: bool = False
    """The container ended without reporting its processes: all were killed."""


class TaskContainer:
    """One container of a task, from its creation to the end of its last process.

    The event loop knows its processes by numbers. The container's first process, the starter, reports how they end, so
    that an engine which restarts does not matter.
    """

    def __init__(
        self, setting: ContainerSetting, loop: EventLoop, start_forked: StartForkedTask, supervisor: ContainerSupervisor
    ) -> None:
        self._setting, self._loop, self._start_forked, self._supervisor = setting, loop, start_forked, supervisor
        owner = hashlib.sha256(f"{setting.folder.home}\0{setting.folder.part}".encode()).hexdigest()[:12]
        self.name = f"runyard-{owner}-{secrets.token_hex(4)}"
        self.events, self.failure = StarterEvents(), None
        self._numbers: dict[str, int] = {}
        self._forked: ForkedTask | None = None
        self._fifo, self._unread = -1, b""

    failure: Json | None
    """Why the container could not be started, as an error of the run."""

    def start(self, programs: Sequence[ContainerProgram], extra: Sequence[Mount] = ()) -> list[int]:
        """Start the container with these processes from a forked child. Return their numbers at once. OSError."""
        setting = self._setting
        files, folder, plan = StarterFiles.of(setting.folder, self.name), setting.folder, setting.plan
        write_starter_files(files, starter_config(folder, files.folder / "home", programs, setting.served))
        logs = [*(program.log for program in programs), *(rank_log(folder, rank) for rank in plan.here.ranks)]
        for log in logs:
            log.touch()
        mounts = [*task_mounts(folder, plan, setting.sdk, logs, self.name, setting.data), *extra]
        if plan.container.user:
            open_to_user(folder, files, mounts)
        self._supervisor.begin(self.name)
        self._fifo = os.open(files.events, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._loop.on_readable(self._fifo, self._on_readable)
        self._numbers = {program.name: self._loop.number() for program in programs}
        self._forked = self._start_forked(lambda notify: _run_container(setting, self.name, mounts))
        self._loop.on_readable(self._forked, self._on_forked_readable)
        return list(self._numbers.values())

    def has_reported(self) -> bool:
        """Tell whether the processes have been started, or never will be."""
        return self.events.has_started or self.events.has_ended

    def why_not_started(self) -> str:
        """Why a process could not be started; "" where all have been, or may yet be."""
        if self.failure is not None:
            return str(self.failure["message"])
        return next(iter(self.events.not_started.values()), "")

    def exit_details(self) -> Json:
        """What the engine knows of its end; see `ContainerSupervisor`."""
        return self._supervisor.exit_details(self.name)

    def _on_readable(self) -> None:
        if self._read_to_end():
            self._end()

    def _read_to_end(self) -> bool:
        """Read the starter's lines. Returns True when the starter has closed its end."""
        try:
            while piece := os.read(self._fifo, 1 << 16):
                self._unread += piece
            is_over = True
        except BlockingIOError:
            is_over = False
        *lines, self._unread = self._unread.split(b"\n")
        for line in lines:
            self._take_line(*line.decode("utf-8", "replace").split(" ", 2))
        return is_over

    def _take_line(self, what: str, name: str = "", rest: str = "") -> None:
        if what == "started":
            self.events.has_started = True
            self._kill_forked()
        elif what == "ended" and name in self._numbers:
            status, kills = rest.split(" ")
            self.events.out_of_memory_kills = int(kills)
            self._loop.settle(self._numbers.pop(name), int(status))
        elif what == "failed":
            self.events.not_started[name] = rest
        elif what == "asked":
            self.events.asked = int(name)

    def _on_forked_readable(self) -> None:
        forked = self._forked
        if forked is None:
            return
        forked.read()
        if not forked.is_over:
            return
        self._read_to_end()
        if not self.events.has_started and not self.events.not_started:
            self.failure = forked.error or _explain_silence(forked.done)
        self._end()

    def _kill_forked(self) -> None:
        forked, self._forked = self._forked, None
        if forked is not None:
            self._loop.forget(forked)
            forked.close()
            with contextlib.suppress(ProcessLookupError):
                os.kill(forked.pid, signal.SIGKILL)

    def _end(self) -> None:
        """Set the status of all processes that the starter did not report: they were killed, or never started."""
        self._kill_forked()
        if self.events.has_ended:
            return
        self.events.has_ended = True
        self._supervisor.end(self.name)
        self.events.killed = self.events.has_started and bool(self._numbers)
        self._loop.forget(self._fifo)
        os.close(self._fifo)
        for number in self._numbers.values():
            self._loop.settle(number, signal.SIGKILL if self.events.has_started else _NEVER_STARTED)
        self._numbers = {}


def _run_container(setting: ContainerSetting, name: str, mounts: Sequence[Mount]) -> Json:
    """Make and start the container, and wait for its end. Killed once the starter has reported."""
    engine = local_engine(setting.plan.env)
    folder = setting.folder
    write_marker(folder.home, folder.part, name, engine)
    spec = container_spec(
        folder,
        setting.plan,
        name=name,
        image=setting.image,
        python=setting.python,
        mounts=mounts,
        user=_user(engine),
    )
    output: list[str] = []
    try:
        finished = engine.containers.run(spec, output.append, keeps=True)
    except EngineRefused as no:
        delete_marker(folder.home, name)
        raise explain_refusal(no) from no
    return {"status": finished.exit.status, "output": output[-_MOST_WORDS:], "error": finished.exit.error}


def _user(engine: ContainerEngine) -> str:
    """User whose files are ours: in a rootless engine, root is the user that runs it."""
    if os.geteuid() == 0 or engine.facts().is_rootless:
        return "0:0"
    return f"{os.geteuid()}:{os.getegid()}"


def _explain_silence(done: Json | None) -> Json:
    if done is None:
        return {"code": "ServiceError", "message": "What was to start the run's container was killed."}
    reason = " ".join([*done["output"], done["error"]]).strip() or f"it ended with {done['status']}"
    message = f"The interpreter of the image could not be started in the run's container: {reason}"
    return {"code": "UserError", "message": message}


_NEXT_STEPS: tuple[tuple[str, str], ...] = (
    (
        "could not select device driver|nvidia\\.com/gpu|unresolvable CDI",
        "The engine cannot give GPUs to containers: install NVIDIA's Container Toolkit (nvidia-container-toolkit) on "
        "the node and restart the engine, or run without a GPU.",
    ),
    ("[Mm]inimum memory limit", "Give the docker argument --memory more, or take it out."),
    (
        "not allowed in (the )?host network namespace",
        "A container that has the host's network cannot set --sysctl net.*: give --network=bridge too, or take it out.",
    ),
    ("[Rr]ange of CPUs|NanoCPUs", "Give the docker argument --cpus less, or take it out."),
    ("[Ii]nvalid (capability|CapAdd|CapDrop)", "Check the docker arguments --cap-add and --cap-drop."),
    ("SHM size|ShmSize", "Check shm_size."),
    ("setting rlimit|ulimit", "Check the docker argument --ulimit: its limits must be ones that the engine may set."),
    ("gathering device information", "Check the docker argument --device."),
)


def explain_refusal(no: EngineRefused) -> EnvironmentFailed:
    """Add advice to a refusal by the engine, if it is about a docker argument of the user's."""
    for words, hint in _NEXT_STEPS if no.facts["cause"] == FailureCause.ENGINE_FAILED else ():
        if re.search(words, no.said):
            problem = f"The run's container cannot be made: {no.said.rstrip('.')}."
            return EnvironmentFailed(problem, hint=hint, cause=no.facts["cause"], said=no.said)
    return no
