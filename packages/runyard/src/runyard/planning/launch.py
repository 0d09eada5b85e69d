"""Turns a run definition into a launch plan: which processes on which nodes, with which variables."""

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
from runyard.planning.submitter_variables import submitter_variables
from runyard.planning.variables import platform_variables

__all__ = ["DRIVER_LOG", "Resources", "plan_preparation", "plan_run"]

_DEFAULT_GRACE_SECONDS = 10.0
_LAYOUTS: Mapping[Kind, Callable[[RunDefinition, Resources], tuple[NodePlan, ...]]] = {
    Kind.SINGLE: single_layout,
    Kind.MPI: mpi_layout,
    Kind.PARAMETER_SERVER: parameter_server_layout,
    Kind.TORCH: torch_layout,
}


def plan_run(run: RunRecord, resources: Resources) -> LaunchPlan:
    """Plan that runs the script. Raises InvalidArgument for a definition that cannot be run."""
    layout = _LAYOUTS[kind_of(run.definition)]
    return LaunchPlan(
        attempt_id=resources.attempt_id,
        run_id=run.id,
        kind="run",
        environment=resources.environment,
        nodes=layout(run.definition, resources),
        code=resources.code,
        data=resources.data,
        env={**submitter_variables(run.definition), **platform_variables(run, resources.context)},
        max_seconds=run.definition.max_run_seconds,
        cancel_grace_seconds=_grace(run.definition),
        notices=tuple(filter(None, (resources.gpus.notice,))),
        token=resources.node_token,
        secret=resources.secret,
        shares_files=resources.shares_files,
        restores_outputs=resources.restores_outputs,
        container=container_wish(run.definition) if resources.environment.image else ContainerWish(),
    )


def plan_preparation(run: RunRecord, resources: Resources) -> LaunchPlan:
    """Plan that only builds the run's environment."""
    return LaunchPlan(
        attempt_id=resources.attempt_id,
        run_id=run.id,
        kind="prepare",
        environment=resources.environment,
        nodes=(NodePlan(resources.addresses[0] if resources.addresses else "127.0.0.1", ()),),
        env=submitter_variables(run.definition),
        cancel_grace_seconds=_grace(run.definition),
        token=resources.node_token,
        shares_files=resources.shares_files,
    )


def _grace(definition: RunDefinition) -> float:
    given = definition.runyard.cancel_grace_seconds
    return _DEFAULT_GRACE_SECONDS if given is None else given
