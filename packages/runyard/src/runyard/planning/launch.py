"""A run definition becomes a launch plan here: which processes on which nodes, with which variables.

Each way to spread a run over processes is one function in `_LAYOUTS`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from runyard.errors import InvalidArgument, NotYet
from runyard.model.files import FileEntry
from runyard.model.plan import DataItem, EnvironmentSpec, LaunchPlan, NodePlan, ProcessSpec
from runyard.model.runs import AttemptId, RunRecord
from runyard.planning.gpus import GpuShare
from runyard.planning.variables import Place, platform_variables, submitter_variables, user_variables

DRIVER_LOG = "azureml-logs/70_driver_log.txt"
_DEFAULT_GRACE_SECONDS = 10.0


@dataclass(frozen=True)
class Resources:
    """What has been found, resolved or handed out for one attempt of a run."""

    attempt_id: AttemptId
    place: Place
    node_token: str
    environment: EnvironmentSpec
    addresses: tuple[str, ...] = ("127.0.0.1",)
    gpus: GpuShare = GpuShare(((),))  # noqa: RUF009  frozen
    code: tuple[FileEntry, ...] = ()
    data: tuple[DataItem, ...] = ()


def plan_run(run: RunRecord, found: Resources) -> LaunchPlan:
    """The plan that runs the script. NotYet for a communicator this version does not have."""
    nodes = layout_of(run.definition)(run.definition, found)
    limit = run.definition.get("maxRunDurationSeconds")
    return LaunchPlan(
        attempt_id=found.attempt_id,
        run_id=run.id,
        kind="run",
        environment=found.environment,
        nodes=nodes,
        code=found.code,
        data=found.data,
        env={**submitter_variables(run.definition), **platform_variables(run, found.place)},
        max_seconds=int(limit) if limit else None,
        cancel_grace_seconds=_grace(run.definition),
        notices=tuple(filter(None, (found.gpus.notice,))),
        token=found.node_token,
    )


def plan_preparation(run: RunRecord, found: Resources) -> LaunchPlan:
    """The plan that builds the run's environment and stops there."""
    return LaunchPlan(
        attempt_id=found.attempt_id,
        run_id=run.id,
        kind="prepare",
        environment=found.environment,
        nodes=(NodePlan(found.addresses[0] if found.addresses else "127.0.0.1", ()),),
        env=submitter_variables(run.definition),
        cancel_grace_seconds=_grace(run.definition),
        token=found.node_token,
    )


Layout = Callable[[Mapping[str, Any], Resources], tuple[NodePlan, ...]]


def layout_of(definition: Mapping[str, Any]) -> Layout:
    """How the definition spreads over processes. NotYet, or InvalidArgument with the communicators known."""
    communicator = str(definition.get("communicator") or "None")
    try:
        return _LAYOUTS[communicator.lower()]
    except KeyError:
        known = ", ".join(sorted(_LAYOUTS))
        raise InvalidArgument(f"communicator {communicator!r} is unknown.", hint=f"Known: {known}.") from None


def _single(definition: Mapping[str, Any], found: Resources) -> tuple[NodePlan, ...]:
    gpus = found.gpus.per_node[0]
    variables = {**user_variables(definition), "CUDA_VISIBLE_DEVICES": ",".join(gpus)}
    process = ProcessSpec(rank=0, command=command_of(definition), env=variables, log=DRIVER_LOG)
    return (NodePlan(found.addresses[0], (process,), gpus),)


def _not_yet(definition: Mapping[str, Any], found: Resources) -> tuple[NodePlan, ...]:
    raise NotYet(
        f"Distributed training (communicator {definition.get('communicator')!r}) is not in this version yet.",
        hint="Submit the run with node_count=1 and without distributed_training.",
    )


_LAYOUTS: Mapping[str, Layout] = {
    "none": _single,
    "mpi": _not_yet,
    "intelmpi": _not_yet,
    "openmpi": _not_yet,
    "parameterserver": _not_yet,
    "gloo": _not_yet,
    "nccl": _not_yet,
}


def command_of(definition: Mapping[str, Any]) -> tuple[str, ...]:
    """The script with its arguments; or `command`, which is a shell's line by its own definition."""
    command = definition.get("command")
    if command:
        line = command if isinstance(command, str) else " ".join(map(str, command))
        return ("/bin/sh", "-c", line)
    script = definition.get("script")
    if not script:
        raise InvalidArgument(
            "The run definition has neither a script nor a command.", hint="Give ScriptRunConfig a script."
        )
    return ("{python}", str(script), *map(str, definition.get("arguments") or ()))


def _grace(definition: Mapping[str, Any]) -> float:
    given = (definition.get("runyard") or {}).get("cancel_grace_seconds")
    return _DEFAULT_GRACE_SECONDS if given is None else float(given)
