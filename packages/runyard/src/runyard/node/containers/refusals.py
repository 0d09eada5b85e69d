import re

from runyard.containers.failures import Refused
from runyard.errors import EnvironmentFailed
from runyard.model.causes import Cause

_NEXT_STEPS: tuple[tuple[str, str], ...] = (
    (
        "could not select device driver|nvidia\\.com/gpu|unresolvable CDI",
        "The engine cannot give GPUs to containers: install NVIDIA's Container Toolkit (nvidia-container-toolkit) on "
        "the node and restart the engine, or run without a GPU.",
    ),
    ("[Mm]inimum memory limit", "Give the docker argument --memory more, or take it out."),
    (
        "not allowed in (the )?host network namespace",
        "A container that has the host's network cannot set --sysctl net.*: give --network=bridge too, or take it out.",
    ),
    ("[Rr]ange of CPUs|NanoCPUs", "Give the docker argument --cpus less, or take it out."),
    ("[Ii]nvalid (capability|CapAdd|CapDrop)", "Check the docker arguments --cap-add and --cap-drop."),
    ("SHM size|ShmSize", "Check shm_size."),
    ("setting rlimit|ulimit", "Check the docker argument --ulimit: its limits must be ones that the engine may set."),
    ("gathering device information", "Check the docker argument --device."),
)


def explained(no: Refused) -> EnvironmentFailed:
    """Add advice to a refusal by the engine, if it is about a docker argument of the user's."""
    for words, hint in _NEXT_STEPS if no.facts["cause"] == Cause.ENGINE_FAILED else ():
        if re.search(words, no.said):
            problem = f"The run's container cannot be made: {no.said.rstrip('.')}."
            return EnvironmentFailed(problem, hint=hint, cause=no.facts["cause"], said=no.said)
    return no
