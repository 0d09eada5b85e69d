import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runyard.client import certificates_file
from runyard.errors import Json
from runyard.model.plan import LaunchPlan, ProcessSpec
from runyard.node.attempt import PART_VARIABLE, AttemptFolder
from runyard.node.containers.part_container import PartContainer
from runyard.node.containers.spec import Program, inside_gpus, mpi_mounts
from runyard.node.mpi.launching import FILES_OF_LAUNCHERS, PROGRAMS
from runyard.node.preparation import Prepared
from runyard.node.rendezvous import with_ports
from runyard.node.starting import Start, start
from runyard.planning.submitter_variables import without_places

_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_RANK_STARTER = "{rank_starter}"


@dataclass(frozen=True)
class Launch:
    """Everything that the processes of a task are started with."""

    folder: AttemptFolder
    plan: LaunchPlan
    prepared: Prepared
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
    container: PartContainer | None = None
    """The container of the processes, if they run in one."""
    of_daemons: Callable[[], PartContainer] | None = None
    """Makes a container for a daemon that a launcher asks for."""

    def begin_logs(self) -> None:
        """Make the log of each process. Raises OSError."""
        for spec in self.plan.here.processes:
            self._begin_log(spec)

    def start_inside(self, container: PartContainer) -> dict[int, ProcessSpec]:
        """Start the processes of the task in a container. Returned by event loop numbers. Raises OSError."""
        specs = self.plan.here.processes
        programs = [self._program(spec) for spec in specs]
        return dict(zip(self._start_in_container(container, programs), specs, strict=True))

    def start_of(self, spec: ProcessSpec) -> Start:
        """What a process of the task is started with on this machine."""
        variables = self.variables(spec.env, _rank_of(spec))
        return self._start(str(spec.rank), self.command(spec, variables), variables, log_file(self.folder, spec))

    def start_daemon(self, command: list[str], log: Path) -> tuple[int, PartContainer | None]:
        """Start a daemon that a launcher on another node asked for, in a container if the task has one. OSError."""
        own = self.plan.here.env
        if self.of_daemons is None:
            return start(self._start("daemon", command, self.variables(own, None), log), self.enter), None
        variables = inside_gpus(self.given(own, None), self.plan.here.gpus)
        program = Program("daemon", command, log, variables, self.in_front(), files=FILES_OF_LAUNCHERS)
        container = self.of_daemons()
        return self._start_in_container(container, [program])[0], container

    def notices(self) -> list[str]:
        """Lines for the head of rank 0's log."""
        warnings = [f"Runyard: {warning}" for warning in self.prepared.warnings]
        if self.prepared.image and self.plan.container.wants_gpus and not self.plan.here.gpus:
            warnings.append("Runyard: the docker argument --gpus does nothing here: the run was given no GPU.")
        return [*warnings, *self.plan.notices, *self.prepared.data.notices, *_of_other_sdk(self.prepared)]

    def _begin_log(self, spec: ProcessSpec) -> None:
        with log_file(self.folder, spec).open("ab") as log:
            for line in self.notices() if spec.rank == 0 and spec.role != "launcher" else ():
                log.write(f"{line}\n".encode())

    def _start_in_container(self, container: PartContainer, programs: list[Program]) -> list[int]:
        if not programs:
            return []
        is_mpi = any(node.ranks for node in self.plan.nodes)
        servers = [facts.get("door") for facts in self.roster] if self.plan.here.processes else []
        return container.start(programs, mpi_mounts(self.folder, PROGRAMS, servers) if is_mpi else ())

    def _program(self, spec: ProcessSpec) -> Program:
        return Program(
            name=str(spec.rank),
            command=self.command(spec, None),
            log=log_file(self.folder, spec),
            variables=inside_gpus(self.given(spec.env, _rank_of(spec)), self.plan.here.gpus),
            in_front=self.in_front(),
            expands=spec.command[0] == "{python}",
            files=FILES_OF_LAUNCHERS if spec.role == "launcher" else None,
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
        of_all = without_places(self.plan.env) if self.prepared.image else self.plan.env
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
            PART_VARIABLE: self.plan.part,
        }

    def _filled(self, word: str) -> str:
        if word == "{python}":
            return self.prepared.python
        return with_ports(self.words.get(word, word), self.roster)

    def _start(self, name: str, command: list[str], variables: dict[str, str], log: Path) -> Start:
        return Start(name, command, variables, str(self.folder.work), str(log), held=self.held)


def _rank_of(spec: ProcessSpec) -> int | None:
    return None if spec.role == "launcher" else spec.rank


def log_file(folder: AttemptFolder, spec: ProcessSpec) -> Path:
    return folder.std / Path(spec.log).name


def _of_other_sdk(prepared: Prepared) -> list[str]:
    if prepared.image or not _has_azureml_core(Path(prepared.python).parent.parent / "lib"):
        return []
    return ["Runyard: azureml-core is installed in this environment; the azureml of Runyard comes first on the path."]


def _has_azureml_core(libraries: Path) -> bool:
    for version in _names(libraries):
        for packages in ("site-packages", "dist-packages"):
            if version.startswith("python3") and any(
                name.startswith("azureml_core-") for name in _names(libraries / version / packages)
            ):
                return True
    return False


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
