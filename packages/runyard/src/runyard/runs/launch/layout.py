from dataclasses import dataclass

from runyard.compute.gpus import GpuShare
from runyard.core.definitions.run import RunDefinition
from runyard.core.errors import InvalidArgument
from runyard.core.records.files import FileEntry
from runyard.core.records.launch_plan import DataItem, EnvironmentSpec, NodePlan, ProcessSpec
from runyard.core.records.runs import AttemptId
from runyard.runs.launch.variables import RunContext, gpu_variables


@dataclass(frozen=True)
class AttemptResources:
    """Everything resolved or allocated for one attempt of a run, that its plan needs."""

    attempt_id: AttemptId
    context: RunContext
    node_token: str
    environment: EnvironmentSpec
    addresses: tuple[str, ...] = ("127.0.0.1",)
    names: tuple[str, ...] = ()
    """Names of the nodes, in the order of `addresses`; empty if they have none."""
    gpus: GpuShare = GpuShare(((),))  # noqa: RUF009  frozen
    code: tuple[FileEntry, ...] = ()
    data: tuple[DataItem, ...] = ()
    secret: str = ""
    """Shared by the nodes of an MPI run, to authenticate one another."""
    shares_files: bool = True
    restores_outputs: bool = False

    def name_of(self, node: int) -> str:
        return self.names[node] if self.names else f"node-{node}"

    def gpus_of(self, node: int) -> tuple[str, ...]:
        share = self.gpus.per_node
        return share[node] if node < len(share) else ()


DRIVER_LOG = "azureml-logs/70_driver_log.txt"


def single_layout(definition: RunDefinition, resources: AttemptResources) -> tuple[NodePlan, ...]:
    """Node plan of one process on one node."""
    gpus = resources.gpus_of(0)
    variables = {**definition.environment.variables, **gpu_variables(gpus)}
    process = ProcessSpec(rank=0, command=command_of(definition), env=variables, log=DRIVER_LOG)
    return (NodePlan(resources.addresses[0], (process,), gpus, resources.name_of(0)),)


def command_of(definition: RunDefinition) -> tuple[str, ...]:
    """Command line of the run: `command` by a shell, or the script with its arguments.

    Raises InvalidArgument for a run with neither.
    """
    if definition.command:
        return ("/bin/sh", "-c", definition.command)
    if not definition.script:
        raise InvalidArgument(
            "The run definition has neither a script nor a command.", hint="Give ScriptRunConfig a script."
        )
    return ("{python}", definition.script, *definition.arguments)
