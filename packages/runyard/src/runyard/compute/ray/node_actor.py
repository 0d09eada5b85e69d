"""The actor on each Ray node. It starts the agent and passes requests to it; it forks nothing itself.

Ray finds these classes by module and name when it restarts an actor: keep both.
"""

import os
from pathlib import Path
from typing import Any

from runyard.compute.remote.node_agent import NodeAgent, claim_home, nodes_folder
from runyard.core.errors import EngineError, Json
from runyard.node.processes.procfs import ProcessId, identify

_OF_RAY = ("RAY_", "PYTHON")


class RayNodeAgent:
    """Actor that the bridge calls. `ask` never raises: an error is returned as `{"error": ...}`."""

    def __init__(self, service: str, address: str) -> None:
        raylet = _raylet()
        home = claim_home(nodes_folder(), service, address, raylet)
        self._agent = NodeAgent(home, environ=_variables_of(raylet), guard=raylet, requirement="runyard[ray]")

    def ask(self, request: Json) -> Json:
        return self._agent.ask(request)


class GpuHolder:
    """Actor in a bundle of a placement group, which knows the GPUs that Ray gave to the bundle."""

    def ids(self) -> list[str]:
        import ray

        return [str(number) for number in ray.get_gpu_ids()]


def _raylet() -> ProcessId:
    given = os.environ.get("RAY_RAYLET_PID", "")
    found = identify(int(given) if given.isdigit() else os.getppid())
    if found is None:
        raise EngineError("The raylet of this node is gone.")
    return found


def _variables_of(raylet: ProcessId) -> dict[str, str]:
    """Variables of the raylet: Ray changes those of its workers (CUDA_VISIBLE_DEVICES, OMP_NUM_THREADS)."""
    text = Path(f"/proc/{raylet.pid}/environ").read_bytes().decode("utf-8", "surrogateescape")
    pairs: list[Any] = [line.partition("=") for line in text.split("\0") if "=" in line]
    return {name: value for name, _, value in pairs if not name.startswith(_OF_RAY)}
