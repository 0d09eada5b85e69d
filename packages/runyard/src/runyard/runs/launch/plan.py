"""Turns a run definition into a launch plan: which processes on which nodes, with which variables."""

from collections.abc import Callable, Mapping

from runyard.core.definitions.run import RunDefinition
from runyard.core.records.launch_plan import ContainerRequest, LaunchPlan, NodePlan
from runyard.core.records.runs import RunRecord
from runyard.core.submitter_variables import submitter_variables
from runyard.environments.planning.container_request import container_request
from runyard.runs.launch.distribution import DistributionKind, distribution_kind
from runyard.runs.launch.layout import DRIVER_LOG, AttemptResources, single_layout
from runyard.runs.launch.mpi import mpi_layout
from runyard.runs.launch.parameter_server import parameter_server_layout
from runyard.runs.launch.torch import torch_layout
from runyard.runs.launch.variables import platform_variables

__all__ = ["DRIVER_LOG", "AttemptResources", "plan_preparation", "plan_run"]

_DEFAULT_GRACE_SECONDS = 10.0
_LAYOUTS: Mapping[DistributionKind, Callable[[RunDefinition, AttemptResources], tuple[NodePlan, ...]]] = {
    DistributionKind.SINGLE: single_layout,
    DistributionKind.MPI: mpi_layout,
    DistributionKind.PARAMETER_SERVER: parameter_server_layout,
    DistributionKind.TORCH: torch_layout,
}


def plan_run(run: RunRecord, resources: AttemptResources) -> LaunchPlan:
    """Plan that runs the script. Raises InvalidArgument for a definition that cannot be run."""
    layout = _LAYOUTS[distribution_kind(run.definition)]
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
        container=container_request(run.definition) if resources.environment.image else ContainerRequest(),
    )


def plan_preparation(run: RunRecord, resources: AttemptResources) -> LaunchPlan:
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
