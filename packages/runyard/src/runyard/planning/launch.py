"""A run definition becomes a launch plan here: which processes on which nodes, with which variables."""

from collections.abc import Callable, Mapping

from runyard.core.definitions.run import RunDefinition
from runyard.model.images import ContainerWish
from runyard.model.plan import LaunchPlan, NodePlan
from runyard.model.runs import RunRecord
from runyard.planning.container_wish import container_wish
from runyard.planning.distribution import Kind, kind_of
from runyard.planning.launch_mpi import mpi_layout
from runyard.planning.launch_parameter_server import parameter_server_layout
from runyard.planning.launch_single import DRIVER_LOG, single_layout
from runyard.planning.launch_torch import torch_layout
from runyard.planning.resources import Resources
from runyard.planning.variables import platform_variables, submitter_variables

__all__ = ["DRIVER_LOG", "Resources", "plan_preparation", "plan_run"]

_DEFAULT_GRACE_SECONDS = 10.0
_LAYOUTS: Mapping[Kind, Callable[[RunDefinition, Resources], tuple[NodePlan, ...]]] = {
    Kind.SINGLE: single_layout,
    Kind.MPI: mpi_layout,
    Kind.PARAMETER_SERVER: parameter_server_layout,
    Kind.TORCH: torch_layout,
}


def plan_run(run: RunRecord, found: Resources) -> LaunchPlan:
    """The plan that runs the script. InvalidArgument for a definition that no nodes could run."""
    layout = _LAYOUTS[kind_of(run.definition)]
    return LaunchPlan(
        attempt_id=found.attempt_id,
        run_id=run.id,
        kind="run",
        environment=found.environment,
        nodes=layout(run.definition, found),
        code=found.code,
        data=found.data,
        env={**submitter_variables(run.definition), **platform_variables(run, found.place)},
        max_seconds=run.definition.max_run_seconds,
        cancel_grace_seconds=_grace(run.definition),
        notices=tuple(filter(None, (found.gpus.notice,))),
        token=found.node_token,
        secret=found.secret,
        shares_files=found.shares_files,
        restores_outputs=found.restores_outputs,
        container=container_wish(run.definition) if found.environment.image else ContainerWish(),
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
        shares_files=found.shares_files,
    )


def _grace(definition: RunDefinition) -> float:
    given = definition.runyard.cancel_grace_seconds
    return _DEFAULT_GRACE_SECONDS if given is None else given
