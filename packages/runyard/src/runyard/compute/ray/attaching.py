from pathlib import Path

from runyard.compute.ray.address import parse_address, require_ray
from runyard.compute.ray.link import BridgeLink
from runyard.compute.ray.names import service_id
from runyard.compute.ray.ray_cluster import RayCluster
from runyard.errors import EngineError
from runyard.version import VERSION

_CONNECT_SECONDS = 30.0
_HELLO_SECONDS = 30.0


def check_address(home: Path, address: str) -> None:
    """Check that a Ray cluster answers there and each of its nodes has this version of Runyard.

    Takes seconds. Raises InvalidArgument for a malformed address, EngineError with what is missing.
    """
    place = parse_address(address)
    require_ray(place)
    link = BridgeLink(place, service_id(home), home / "ray" / "bridge.log")
    try:
        check_cluster(RayCluster(link))
    finally:
        link.close()


def check_cluster(cluster: RayCluster) -> None:
    state = cluster.refresh(patience_seconds=_CONNECT_SECONDS)
    nodes = [node for node in state.nodes if node.is_alive]
    if not nodes:
        raise EngineError(f"The Ray cluster at {cluster.link.address} has no living node.")
    for answer in cluster.ask([(node, {"op": "hello", "version": VERSION}) for node in nodes], seconds=_HELLO_SECONDS):
        if isinstance(answer, EngineError):
            raise answer
