"""Typed run definition of SDK v1. It is read once from a request or a store, then passed on."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from runyard.core.definitions.environment import EnvironmentDefinition, docker_arguments, environment_in
from runyard.core.definitions.fields import NOTHING, Fields, JsonObject, JsonValue, read_once, shown, whole_number
from runyard.core.definitions.run_data import (
    DataReference,
    DatasetInput,
    OutputData,
    data_references,
    dataset_inputs,
    output_data,
)
from runyard.core.errors import InvalidArgument

ATTEMPTS_VARIABLE = "RUNYARD_MAX_ATTEMPTS"
OUTPUTS_OF = "outputs_of"
"""Field of the `runyard` section: the run whose outputs/ this run starts with. Only the platform sets it."""
MOST_NODES = 1_000
_MOST_ATTEMPTS = 100
_SHORT_NUMBER = re.compile("[0-9]{1,9}")
_LONGEST_SECONDS = 10**9


@dataclass(frozen=True)
class Submitter:
    """Facts about the client that submitted the run."""

    python: str
    python_version: str
    user: str
    variables: Mapping[str, str]
    raw: JsonObject

    def to_json(self) -> JsonObject:
        """JSON for storage."""
        fields = {"python": self.python, "python_version": self.python_version, "user": self.user}
        return {**fields, "variables": self.variables}


@dataclass(frozen=True)
class RunError:
    """Why a run failed, as reported by its script or submitter. The object is stored and shown as it is."""

    raw: JsonObject


@dataclass(frozen=True)
class Estimator:
    framework: str
    version: str
    version_is_default: bool
    """True if the SDK filled in the version, not the user."""
    unpinned: str
    """Framework whose version the environment does not pin."""
    use_gpu: bool | None


@dataclass(frozen=True)
class RunyardSection:
    """Fields that Runyard's SDK adds to a run definition of SDK v1."""

    submitter: Submitter
    estimator: Estimator
    conda_packages: tuple[str, ...]
    lock: str
    """Environment lock of the run that this one repeats."""
    is_build: bool
    """True if the run only builds its environment."""
    is_forced_build: bool
    """True if it rebuilds an environment that is in the cache."""
    cancel_grace_seconds: float | None
    outputs_of: str | None
    sweep: JsonValue
    """Submitted definition of a sweep; None for any other run."""
    raw: JsonObject


@dataclass(frozen=True)
class RunDockerSection:
    """DockerConfiguration of the run, in addition to that of its environment."""

    use_docker: bool
    arguments: tuple[str, ...]
    shm_size: JsonValue


@dataclass(frozen=True)
class ProcessCounts:
    """Number of processes of each kind of distribution; None if not given."""

    per_node: int | None
    workers: int | None
    parameter_servers: int | None
    torch_processes: int | None


@dataclass(frozen=True)
class RunDefinition:
    """`raw` is stored and shown as it is, unknown fields included.

    Each field is read on first use, then cached: a record from the store costs nothing until then. `parse` reads all
    fields at once, for a definition that comes from a client.
    """

    raw: JsonObject = field(default_factory=dict)

    @classmethod
    def parse(cls, raw: JsonObject) -> "RunDefinition":
        """Raises InvalidArgument naming the wrong field."""
        found = cls(raw)
        for name in _READ_FROM:
            getattr(found, name)
        found.environment.checked()
        return found

    def with_fields(self, **fields: JsonValue) -> "RunDefinition":
        """Return a copy with these fields replaced. Keeps what was already read of the others."""
        made = RunDefinition({**self.raw, **fields})
        kept = {name: self.__dict__[name] for name, read in _READ_FROM.items() if name in self.__dict__}
        made.__dict__.update({name: value for name, value in kept.items() if _READ_FROM[name].isdisjoint(fields)})
        return made

    def with_environment(self, environment: EnvironmentDefinition) -> "RunDefinition":
        made = self.with_fields(environment=environment.raw)
        made.__dict__["environment"] = environment
        return made

    def with_runyard(self, **fields: JsonValue) -> "RunDefinition":
        """Return a copy with these fields of its `runyard` section replaced; None removes a field."""
        ours = {**self.runyard.raw, **fields}
        left_out = {name for name, value in fields.items() if value is None}
        return self.with_fields(runyard={name: value for name, value in ours.items() if name not in left_out})

    @read_once
    def target(self) -> str:
        target = self.raw.get("target") or "local"
        if not isinstance(target, str):
            raise InvalidArgument(f"compute_target must be a name, got {shown(target)}.")
        return target

    @read_once
    def script(self) -> str:
        script = self.raw.get("script") or ""
        if not isinstance(script, str):
            raise InvalidArgument(f"script must be a path, got {shown(script)}.")
        return _without_nul("script", script)

    @read_once
    def command(self) -> str:
        """Shell command line; "" if the run has a script."""
        command = self.raw.get("command") or ""
        if not isinstance(command, str | list | tuple):
            raise InvalidArgument(f"command must be a string or a list, got {shown(command)}.")
        return _without_nul("command", command if isinstance(command, str) else " ".join(map(str, command)))

    @read_once
    def arguments(self) -> tuple[str, ...]:
        arguments = self.raw.get("arguments") or ()
        if isinstance(arguments, str) or not isinstance(arguments, Sequence):
            raise InvalidArgument(f"arguments must be a list, got {shown(arguments)}.")
        return tuple(_without_nul("arguments", str(word)) for word in arguments)

    @read_once
    def framework(self) -> str:
        return self._fields.text("framework", "Python")

    @read_once
    def communicator(self) -> str:
        return self._fields.text("communicator", "None")

    @read_once
    def node_count(self) -> int:
        """Number of nodes. Limited, because callers may allocate something for each node."""
        count = whole_number(self.raw.get("nodeCount", 1), "node_count", at_least=1)
        if count > MOST_NODES:
            raise InvalidArgument(f"node_count must be at most {MOST_NODES}, got {shown(count)}.")
        return count

    @read_once
    def process_counts(self) -> ProcessCounts:
        mpi, tensorflow, torch = (self._fields.section(name) for name in ("mpi", "tensorflow", "pyTorch"))
        return ProcessCounts(
            per_node=_count(mpi, "processCountPerNode", "process_count_per_node"),
            workers=_count(tensorflow, "workerCount", "worker_count"),
            parameter_servers=_count(tensorflow, "parameterServerCount", "parameter_server_count", at_least=0),
            torch_processes=_count(torch, "processCount", "process_count"),
        )

    @read_once
    def max_run_seconds(self) -> int | None:
        """None for no limit."""
        seconds = _seconds(self.raw.get("maxRunDurationSeconds"), "max_run_duration_seconds")
        return int(seconds) if seconds else None

    @read_once
    def max_attempts(self) -> int:
        """Maximum number of attempts, the first included. More than one lets a run restart after it lost a node."""
        given = self.environment.variables.get(ATTEMPTS_VARIABLE, "").strip()
        if not given:
            return 1
        if not _SHORT_NUMBER.fullmatch(given) or not 1 <= int(given) <= _MOST_ATTEMPTS:
            raise InvalidArgument(
                f"{ATTEMPTS_VARIABLE} must be a whole number from 1 to {_MOST_ATTEMPTS}, got {given[:40]!r}.",
                hint="It is one of the run's environment_variables and counts the first attempt too.",
            )
        return int(given)

    @read_once
    def environment(self) -> EnvironmentDefinition:
        return environment_in(self.raw)

    @read_once
    def docker(self) -> RunDockerSection:
        given = self._fields.section("docker")
        arguments = docker_arguments(given.raw.get("arguments"))
        return RunDockerSection(given.flag("useDocker"), arguments, given.raw.get("shmSize"))

    @read_once
    def data(self) -> Mapping[str, DatasetInput]:
        """Dataset inputs by name."""
        return dataset_inputs(self.raw)

    @read_once
    def references(self) -> Mapping[str, DataReference]:
        return data_references(self.raw)

    @read_once
    def outputs(self) -> Mapping[str, OutputData]:
        return output_data(self.raw)

    @read_once
    def runyard(self) -> RunyardSection:
        return _runyard(self._fields.section("runyard"))

    @property
    def _fields(self) -> Fields:
        return Fields(self.raw)


_READ_FROM: Mapping[str, frozenset[str]] = {
    "target": frozenset({"target"}),
    "script": frozenset({"script"}),
    "command": frozenset({"command"}),
    "arguments": frozenset({"arguments"}),
    "framework": frozenset({"framework"}),
    "communicator": frozenset({"communicator"}),
    "node_count": frozenset({"nodeCount"}),
    "process_counts": frozenset({"mpi", "tensorflow", "pyTorch"}),
    "max_run_seconds": frozenset({"maxRunDurationSeconds"}),
    "environment": frozenset({"environment"}),
    "max_attempts": frozenset({"environment"}),
    "docker": frozenset({"docker"}),
    "data": frozenset({"data"}),
    "references": frozenset({"dataReferences"}),
    "outputs": frozenset({"outputData"}),
    "runyard": frozenset({"runyard"}),
}
"""Fields of `raw` that each property is read from."""


def submitter_of(given: Fields) -> Submitter:
    return Submitter(
        given.text("python"), given.text("python_version"), given.text("user"), given.strings("variables"), given.raw
    )


def _runyard(given: Fields) -> RunyardSection:
    build, estimator = given.raw.get("build"), given.section("estimator")
    outputs_of = given.raw.get(OUTPUTS_OF)
    return RunyardSection(
        submitter=submitter_of(given.section("submitter")),
        estimator=Estimator(
            framework=estimator.text("framework"),
            version=estimator.text("version"),
            version_is_default=estimator.flag("version_is_default"),
            unpinned=estimator.text("unpinned"),
            use_gpu=estimator.flag_or_none("use_gpu"),
        ),
        conda_packages=given.texts("conda_packages"),
        lock=given.section("locked").text("lock"),
        is_build=bool(build),
        is_forced_build=bool(build) and given.section("build").flag("force"),
        cancel_grace_seconds=_seconds(given.raw.get("cancel_grace_seconds"), "runyard.cancel_grace_seconds"),
        outputs_of=None if outputs_of is None else str(outputs_of),
        sweep=given.raw.get("sweep"),
        raw=given.raw,
    )


def _count(given: Fields, name: str, called: str, *, at_least: int = 1) -> int | None:
    value = given.raw.get(name)
    return None if value is None else whole_number(value, called, at_least=at_least)


def _seconds(value: JsonValue, called: str) -> float | None:
    """Seconds from a number or its text; None if not given."""
    if value is None or value == "":
        return None
    try:
        seconds = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        seconds = math.nan
    if not 0 <= seconds <= _LONGEST_SECONDS:
        raise InvalidArgument(f"{called} must be a number of seconds from 0 to {_LONGEST_SECONDS}, got {shown(value)}.")
    return seconds


def _without_nul(argument: str, word: str) -> str:
    if "\0" in word:
        raise InvalidArgument(f"{argument} has {ascii(word)[:80]}: no program can be given a NUL.")
    return word


EMPTY_DEFINITION = RunDefinition(NOTHING)
UNKNOWN_SUBMITTER = submitter_of(Fields(NOTHING))
"""A submitter without any facts."""
