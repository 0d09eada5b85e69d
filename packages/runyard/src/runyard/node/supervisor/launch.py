import contextlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from runyard.client import certificates_file
from runyard.core.errors import Json
from runyard.core.records.launch_plan import LaunchPlan, ProcessSpec
from runyard.core.submitter_variables import without_machine_paths
from runyard.node.containers.spec import ContainerProgram, mpi_mounts, renumber_gpus
from runyard.node.containers.task_container import TaskContainer
from runyard.node.mpi.open_mpi import OPEN_FILES_OF_LAUNCHERS, PROGRAMS
from runyard.node.processes.spawn import SpawnSpec, spawn
from runyard.node.supervisor.preparation import PreparedTask
from runyard.node.supervisor.rendezvous import fill_in_ports
from runyard.node.task_folder import TASK_VARIABLE, TaskFolder

_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_RANK_STARTER = "{rank_starter}"


@dataclass(frozen=True)
class Launch:
    """Everything that the processes of a task are started with."""

    folder: TaskFolder
    plan: LaunchPlan
    prepared: PreparedTask
    sdk: Path
    roster: Sequence[Json] = ()
    """Facts that each node reported when it was ready, by node."""
    words: Mapping[str, str] = field(default_factory=dict)
    """Values of the placeholders of a launcher's command on this node."""
    of_launchers: Mapping[str, str] = field(default_factory=dict)
    """Variables of processes that start ranks on this node."""
    enter: Callable[[], None] | None = None
    """Called in the new process before it executes the script: it enters the private network."""
    held: tuple[int, ...] = ()
    """Descriptors that each process keeps open while it runs."""
    container: TaskContainer | None = None
    """The container of the processes, if they run in one."""
    of_daemons: Callable[[], TaskContainer] | None = None
    """Makes a container for a daemon that a launcher asks for."""

    def begin_logs(self) -> None:
        """Make the log of each process. Raises OSError."""
        for spec in self.plan.here.processes:
            self._begin_log(spec)

    def start_in_container(self, container: TaskContainer) -> dict[int, ProcessSpec]:
        """Start the processes of the task in a container. Returned by event loop numbers. Raises OSError."""
        specs = self.plan.here.processes
        programs = [self._program(spec) for spec in specs]
        return dict(zip(self._start_in_container(container, programs), specs, strict=True))

    def spawn_spec_of(self, spec: ProcessSpec) -> SpawnSpec:
        """What a process of the task is started with on this machine."""
        variables = self.variables(spec.env, _rank_of(spec))
        return self._start(str(spec.rank), self.command(spec, variables), variables, process_log(self.folder, spec))

    def start_daemon(self, command: list[str], log: Path) -> tuple[int, TaskContainer | None]:
        """Start a daemon that a launcher on another node asked for, in a container if the task has one. OSError."""
        own = self.plan.here.env
        if self.of_daemons is None:
            return spawn(self._start("daemon", command, self.variables(own, None), log), self.enter), None
        variables = renumber_gpus(self.given(own, None), self.plan.here.gpus)
        program = ContainerProgram("daemon", command, log, variables, self.in_front(), files=OPEN_FILES_OF_LAUNCHERS)
        container = self.of_daemons()
        return self._start_in_container(container, [program])[0], container

    def notices(self) -> list[str]:
        """Lines for the head of rank 0's log."""
        warnings = [f"Runyard: {warning}" for warning in self.prepared.warnings]
        if self.prepared.image and self.plan.container.wants_gpus and not self.plan.here.gpus:
            warnings.append("Runyard: the docker argument --gpus does nothing here: the run was given no GPU.")
        return [*warnings, *self.plan.notices, *self.prepared.data.notices, *_other_sdk_notices(self.prepared)]

    def _begin_log(self, spec: ProcessSpec) -> None:
        with process_log(self.folder, spec).open("ab") as log:
            for line in self.notices() if spec.rank == 0 and spec.role != "launcher" else ():
                log.write(f"{line}\n".encode())

    def _start_in_container(self, container: TaskContainer, programs: list[ContainerProgram]) -> list[int]:
        if not programs:
            return []
        is_mpi = any(node.ranks for node in self.plan.nodes)
        # "door" is the name in the wire format.
        servers = [facts.get("door") for facts in self.roster] if self.plan.here.processes else []
        return container.start(programs, mpi_mounts(self.folder, PROGRAMS, servers) if is_mpi else ())

    def _program(self, spec: ProcessSpec) -> ContainerProgram:
        return ContainerProgram(
            name=str(spec.rank),
            command=self.command(spec, None),
            log=process_log(self.folder, spec),
            variables=renumber_gpus(self.given(spec.env, _rank_of(spec)), self.plan.here.gpus),
            in_front=self.in_front(),
            expands=spec.command[0] == "{python}",
            files=OPEN_FILES_OF_LAUNCHERS if spec.role == "launcher" else None,
        )

    def command(self, spec: ProcessSpec, variables: Mapping[str, str] | None) -> list[str]:
        """The command with interpreter, data paths, ports and, if `variables` are given, `$NAME` variables filled in.
        A shell expands its own text; the arguments of a rank starter are filled in on the rank's node."""
        if _RANK_STARTER in spec.command:
            end = spec.command.index(_RANK_STARTER) + 1
            return [*map(self._filled, spec.command[:end]), *spec.command[end:]]
        words = [self._filled(word) for word in spec.command]
        for text, path in self.placeholders():
            words = [word.replace(text, path) for word in words]
        if variables is None or spec.command[0] != "{python}":
            return words
        return [
            words[0],
            *(_VARIABLE.sub(lambda found: variables.get(found[1] or found[2], found[0]), word) for word in words[1:]),
        ]

    def placeholders(self) -> list[tuple[str, str]]:
        """Placeholders of the run's data in arguments, with the paths on this node."""
        found = [(item.placeholder, self.prepared.data.paths[item.name]) for item in self.plan.data if item.placeholder]
        # Longest first: one placeholder may be a prefix of another.
        return sorted(found, key=lambda pair: len(pair[0]), reverse=True)

    def variables(self, own: Mapping[str, str], rank: int | None) -> dict[str, str]:
        """The whole environment of a process on this machine, without anything of the supervisor's own."""
        variables = self.given(own, rank)
        variables["PATH"] = variables.get("PATH") or os.defpath
        for name, value in self.in_front().items():
            variables[name] = os.pathsep.join(filter(None, (value, variables.get(name, ""))))
        return variables

    def in_front(self) -> dict[str, str]:
        """Values that are put first in path variables: the SDK, and the environment's programs."""
        python = Path(self.prepared.python)
        beside = {"PATH": str(python.parent)} if python.is_absolute() else {}
        return {"PYTHONPATH": str(self.sdk), **self.prepared.path_variables, **beside}

    def given(self, own: Mapping[str, str], rank: int | None) -> dict[str, str]:
        """The run's own variables, on the machine and in a container. A process without a rank starts ranks."""
        of_all = without_machine_paths(self.plan.env) if self.prepared.image else self.plan.env
        variables = {**of_all, **{name: self._filled(value) for name, value in own.items()}}
        for item in self.plan.data:
            variables.update(dict.fromkeys(item.variables, self.prepared.data.paths[item.name]))
        certificates = certificates_file(self.folder.home)
        return {
            **variables,
            **({"RUNYARD_CA": str(certificates)} if certificates is not None else {}),
            **({"RUNYARD_RANK": str(rank)} if rank is not None else self.of_launchers),
            "RUNYARD_HOME": str(self.folder.home),
            "RUNYARD_JOURNALS": str(self.folder.journals),
            "RUNYARD_UPLOADS": str(self.folder.uploads),
            "RUNYARD_ATTEMPT": self.plan.attempt_id,
            TASK_VARIABLE: self.plan.part,
        }

    def _filled(self, word: str) -> str:
        if word == "{python}":
            return self.prepared.python
        return fill_in_ports(self.words.get(word, word), self.roster)

    def _start(self, name: str, command: list[str], variables: dict[str, str], log: Path) -> SpawnSpec:
        return SpawnSpec(name, command, variables, str(self.folder.work), str(log), held=self.held)


def _rank_of(spec: ProcessSpec) -> int | None:
    return None if spec.role == "launcher" else spec.rank


def process_log(folder: TaskFolder, spec: ProcessSpec) -> Path:
    return folder.std / Path(spec.log).name


def _other_sdk_notices(prepared: PreparedTask) -> list[str]:
    if prepared.image or not _has_azureml_core(Path(prepared.python).parent.parent / "lib"):
        return []
    return ["Runyard: azureml-core is installed in this environment; the azureml of Runyard comes first on the path."]


def _has_azureml_core(libraries: Path) -> bool:
    for version in _names(libraries):
        for kind in ("site-packages", "dist-packages"):
            packages = libraries / version / kind
            with contextlib.suppress(OSError):  # there is none
                if version.startswith("python3") and _lists_azureml_core(packages, os.stat(packages).st_mtime_ns):
                    return True
    return False


@lru_cache(maxsize=64)
def _lists_azureml_core(packages: Path, changed_ns: int) -> bool:
    """Tell whether a folder of packages has azureml-core. `changed_ns` is part of the cache key."""
    return any(name.startswith("azureml_core-") for name in _names(packages))


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
