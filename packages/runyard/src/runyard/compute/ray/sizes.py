from collections.abc import Mapping
from typing import Any

from runyard.compute.ray.state import ClusterState, fits
from runyard.errors import InvalidArgument
from runyard.planning.vm_sizes import NodeResources, node_resources

_GB = 1024**3
_OURS = {"cpu": "CPU", "gpu": "GPU", "memory_gb": "memory"}


def bundle_of(body: Mapping[str, Any], sizes: Mapping[str, NodeResources]) -> dict[str, float]:
    """Ray resources of one node of a compute target: its `resources`, else those of its `vm_size`, else one CPU."""
    given = {name: amount for name, amount in (body.get("resources") or {}).items() if amount is not None}
    if not given and body.get("vm_size"):
        size = node_resources(str(body["vm_size"]), sizes)
        given = {"cpu": size.cpu, "gpu": size.gpu, "memory_gb": size.memory_gb}
    bundle = {_OURS.get(name, name): _amount(name, amount) for name, amount in given.items()}
    found = {name: amount for name, amount in bundle.items() if amount > 0}
    return found or {"CPU": 1.0}


def _amount(name: str, amount: Any) -> float:
    try:
        value = float(amount)
    except (TypeError, ValueError):
        value = -1.0
    if not 0 <= value < float("inf") or isinstance(amount, bool):
        raise InvalidArgument(f"resources[{name!r}] must be a number of at least 0, got {amount!r}.")
    if name == "gpu" and value != int(value):
        raise InvalidArgument(f"resources['gpu'] must be a whole number, got {amount!r}: runs do not share a GPU.")
    return value * _GB if name == "memory_gb" else value


def words_for(bundle: Mapping[str, float]) -> str:
    """Resources as text: "6 CPU, 1 GPU, 56 GB"."""
    return ", ".join(
        f"{amount / _GB:.3g} GB" if name == "memory" else f"{amount:g} {name}" for name, amount in bundle.items()
    )


def check_gang(count: int, bundle: Mapping[str, float], state: ClusterState) -> None:
    """Raise InvalidArgument, with the numbers, if the cluster can never give these nodes. Passes if not known."""
    here = [node for node in state.nodes if node.fits(bundle)]
    if state.autoscales is None or (state.autoscales and not state.kinds):
        return
    can_come = sum(kind.most for kind in state.kinds if fits(bundle, kind.resources))
    if max(len(here), can_come) >= count:
        return
    largest = [
        words_for({name: node.resources.get(name, 0.0) for name in bundle}) for node in state.nodes if node.is_alive
    ]
    largest += [
        f"{words_for({name: kind.resources.get(name, 0.0) for name in bundle})} ({kind.name})" for kind in state.kinds
    ]
    raise InvalidArgument(
        f"The run needs {count} node{'s' if count > 1 else ''} with {words_for(bundle)} each at the same time; the Ray "
        f"cluster can give {max(len(here), can_come)}. Its nodes have: {'; '.join(sorted(set(largest))) or 'nothing'}.",
        hint="Lower node_count, or the resources (vm_size) of the compute target, or add nodes to the Ray cluster.",
    )
