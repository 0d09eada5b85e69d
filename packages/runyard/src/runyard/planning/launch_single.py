from runyard.core.definitions.run import RunDefinition
from runyard.errors import InvalidArgument
from runyard.model.plan import NodePlan, ProcessSpec
from runyard.planning.resources import Resources
from runyard.planning.variables import gpu_variables

DRIVER_LOG = "azureml-logs/70_driver_log.txt"


def single_layout(definition: RunDefinition, resources: Resources) -> tuple[NodePlan, ...]:
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
