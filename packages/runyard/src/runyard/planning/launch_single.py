from collections.abc import Mapping, Sequence
from typing import Any

from runyard.errors import InvalidArgument
from runyard.model.plan import NodePlan, ProcessSpec
from runyard.planning.resources import Resources
from runyard.planning.variables import gpu_variables, user_variables

DRIVER_LOG = "azureml-logs/70_driver_log.txt"


def single_layout(definition: Mapping[str, Any], found: Resources) -> tuple[NodePlan, ...]:
    """One process on one node."""
    gpus = found.gpus_of(0)
    variables = {**user_variables(definition), **gpu_variables(gpus)}
    process = ProcessSpec(rank=0, command=command_of(definition), env=variables, log=DRIVER_LOG)
    return (NodePlan(found.addresses[0], (process,), gpus, found.name_of(0)),)


def command_of(definition: Mapping[str, Any]) -> tuple[str, ...]:
    """The script with its arguments; or `command`, which is a shell's line by its own definition. InvalidArgument for
    what cannot be started."""
    command = definition.get("command")
    if command:
        line = command if isinstance(command, str) else " ".join(map(str, command))
        return _without_nul("command", ("/bin/sh", "-c", line))
    script = definition.get("script")
    if not script:
        raise InvalidArgument(
            "The run definition has neither a script nor a command.", hint="Give ScriptRunConfig a script."
        )
    arguments = definition.get("arguments") or ()
    if isinstance(arguments, str) or not isinstance(arguments, Sequence):
        raise InvalidArgument(f"arguments must be a list, got {ascii(arguments)[:80]}.")
    return _without_nul("arguments", ("{python}", str(script), *map(str, arguments)))


def _without_nul(argument: str, words: tuple[str, ...]) -> tuple[str, ...]:
    bad = next((word for word in words if "\0" in word), None)
    if bad is not None:
        raise InvalidArgument(f"{argument} has {ascii(bad)[:80]}: no program can be given a NUL.")
    return words
