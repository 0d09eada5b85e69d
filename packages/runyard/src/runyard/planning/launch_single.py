from runyard.core.definitions.run import RunDefinition
from runyard.errors import InvalidArgument
from runyard.model.plan import NodePlan, ProcessSpec
from runyard.planning.resources import Resources
from runyard.planning.variables import gpu_variables

DRIVER_LOG = "azureml-logs/70_driver_log.txt"


def single_layout(definition: RunDefinition, found: Resources) -> tuple[NodePlan, ...]:
    """One process on one node."""
    gpus = found.gpus_of(0)
    variables = {**definition.environment.variables, **gpu_variables(gpus)}
    process = ProcessSpec(rank=0, command=command_of(definition), env=variables, log=DRIVER_LOG)
    return (NodePlan(found.addresses[0], (process,), gpus, found.name_of(0)),)


def command_of(definition: RunDefinition) -> tuple[str, ...]:
    """The script with its arguments; or `command`, which is a shell's line by its own definition. InvalidArgument for
    a run that has neither."""
    if definition.command:
        return ("/bin/sh", "-c", definition.command)
    if not definition.script:
        raise InvalidArgument(
            "The run definition has neither a script nor a command.", hint="Give ScriptRunConfig a script."
        )
    return ("{python}", definition.script, *definition.arguments)
