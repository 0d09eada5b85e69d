"""The bridge's connection to Ray: placement groups, actors on nodes, autoscaler. It imports ray: only the bridge may
import it.
"""

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import ray
from ray.autoscaler.sdk import request_resources
from ray.experimental import internal_kv
from ray.util.placement_group import (
    PlacementGroup,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)

from runyard.compute.ray.address import CLIENT_SCHEME, require_ray
from runyard.compute.ray.bridge_actors import NodeActors
from runyard.compute.ray.names import NAMESPACE, holder_name, parse_allocation_name
from runyard.compute.ray.node_actor import GpuHolder
from runyard.core.errors import EngineError, Json

_AT_ONCE_SECONDS = 0.05
_PLACING_SECONDS = 3600.0
_HOLDER_SECONDS = 60.0
_GONE = ("REMOVED",)


def connect(address: str, service: str, send: Callable[[Json], None]) -> "BridgeCluster":
    """Connect to Ray. Raises EngineError when no Ray listens there, else what Ray raises."""
    require_ray(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, logging_level="ERROR", configure_logging=False)
    return BridgeCluster(service, send, is_client=address.startswith(CLIENT_SCHEME))


class BridgeCluster:
    """One connection to a cluster, for one service. Thread-safe."""

    def __init__(self, service: str, send: Callable[[Json], None], *, is_client: bool) -> None:
        self._service, self._send = service, send
        self._agents, self._scaling = NodeActors(service), Autoscaler(service, is_client=is_client)
        self._gpus: dict[str, list[list[str]]] = {}
        self._watched: set[str] = set()
        self._lock = threading.Lock()
        self._known: dict[str, Callable[[Json], Any]] = {
            "state": lambda _: self._state(),
            # "gang" and "gangs" are the names in messages.
            "gang": lambda m: self._allocate(m["name"], m["bundles"]),
            "drop": lambda m: self._drop(m["name"]),
            "ask": lambda m: self._agents.ask_all(m["requests"], m["seconds"]),
            "replace": lambda m: self._agents.replace(m["node"]),
            "let_go": lambda m: self._agents.end_agent(m["node"]),
            "minima": lambda m: self._scaling.request_minimum(m["bundles"]),
        }

    def do(self, op: str, message: Json) -> Any:
        return self._known[op](message)

    def beat(self) -> None:
        """Raises when the cluster does not answer."""
        ray.nodes()

    def _state(self) -> Json:
        leaving = self._scaling.leaving()
        nodes = [
            {
                "id": node["NodeID"],
                "address": node["NodeManagerAddress"],
                "name": node.get("NodeName") or node["NodeManagerAddress"],
                "is_alive": bool(node["Alive"]),
                "is_leaving": node["NodeID"] in leaving,
                "is_head": "node:__internal_head__" in node["Resources"],
                "resources": node["Resources"],
                "why": node.get("DeathReasonMessage") or "",
            }
            for node in ray.nodes()
        ]
        return {"nodes": nodes, "gangs": self._allocations(), **self._scaling.facts()}

    def _allocations(self) -> list[Json]:
        found = []
        for entry in placement_group_table().values():
            name = parse_allocation_name(entry["name"])
            if name is not None and name.service == self._service and entry["state"] not in _GONE:
                found.append(self._facts(entry))
        return found

    def _facts(self, entry: Json) -> Json:
        bundles = [entry["bundles"][index] for index in sorted(entry["bundles"])]
        return {
            "name": entry["name"],
            "state": entry["state"],
            "nodes": [entry["bundles_to_node_id"][index] for index in sorted(entry["bundles"])],
            "gpus": self._gpus_of(entry, bundles),
            "bundles": bundles,
        }

    def _allocate(self, name: str, bundles: list[dict[str, float]]) -> Json:
        """Find or make the placement group of a run."""
        group = self._find(name)
        if group is None:
            strategy = "STRICT_SPREAD" if len(bundles) > 1 else "PACK"
            group = placement_group(bundles, strategy=strategy, name=name, lifetime="detached")
        if not group.wait(_AT_ONCE_SECONDS):
            self._watch(name, group)
        return self._facts(placement_group_table(group))

    def _find(self, name: str) -> PlacementGroup | None:
        try:
            return get_placement_group(name)
        except ValueError:
            return None

    def _drop(self, name: str) -> Json:
        """Remove a placement group, with the GPU holders in it. Does nothing when it is gone."""
        group = self._find(name)
        if group is not None:
            remove_placement_group(group)
        self._gpus.pop(name, None)
        return {}

    def _watch(self, name: str, group: PlacementGroup) -> None:
        """Send an event when the placement group is ready."""
        with self._lock:
            if name in self._watched:
                return
            self._watched.add(name)

        def wait() -> None:
            try:
                if group.wait(_PLACING_SECONDS):
                    self._send({"event": "gang", "name": name})
            except Exception:  # removed meanwhile, or the cluster is gone
                pass
            finally:
                self._watched.discard(name)

        threading.Thread(target=wait, name="placing", daemon=True).start()

    def _gpus_of(self, entry: Json, bundles: list[dict[str, float]]) -> list[list[str]] | None:
        """GPU ids of each bundle, [] for those without; None while the holders are being asked."""
        name = entry["name"]
        if entry["state"] != "CREATED" or not any(bundle.get("GPU") for bundle in bundles):
            return [[] for _ in bundles]
        if name not in self._gpus:
            with self._lock:
                if name not in self._watched:
                    self._watched.add(name)
                    arguments = (name, bundles)
                    threading.Thread(target=self._hold_gpus, args=arguments, name="holding", daemon=True).start()
        return self._gpus.get(name)

    def _hold_gpus(self, name: str, bundles: list[dict[str, float]]) -> None:
        try:
            group = self._find(name)
            if group is None:
                return
            holders = [_holder(group, name, index, int(bundle["GPU"])) for index, bundle in enumerate(bundles)]
            self._gpus[name] = ray.get([holder.ids.remote() for holder in holders], timeout=_HOLDER_SECONDS)
            self._send({"event": "gang", "name": name})
        except Exception as e:  # tried again at the next request for the placement group
            raise EngineError(f"The GPUs of {name} could not be held: {e}") from e
        finally:
            self._watched.discard(name)


def _holder(group: PlacementGroup, name: str, bundle: int, gpus: int) -> Any:
    return (
        ray.remote(GpuHolder)
        .options(
            name=holder_name(name, bundle),
            lifetime="detached",
            get_if_exists=True,
            num_cpus=0,
            num_gpus=gpus,
            placement_group=group,
            placement_group_bundle_index=bundle,
            max_restarts=0,
        )
        .remote()
    )


_STATUS = b"__autoscaling_status"
_REQUESTS = b"runyard:wishes:"  # the name on Ray clusters
_REQUEST_SECONDS = 600.0
_READ_ONLY_KIND = "node_"


class Autoscaler:
    def __init__(self, service: str, *, is_client: bool) -> None:
        self._key, self._is_client = _REQUESTS + service.encode(), is_client
        self._asked: list[dict[str, float]] | None = None

    def request_minimum(self, bundles: list[dict[str, float]]) -> Json:
        """Request a minimum of nodes, together with the requests of other services: in Ray a request replaces all
        earlier ones. Must be repeated; a request that is not repeated expires after ten minutes."""
        if not bundles and not internal_kv._internal_kv_exists(self._key):
            return {}
        if bundles:
            internal_kv._internal_kv_put(self._key, json.dumps({"bundles": bundles, "at": time.time()}).encode())
        else:
            internal_kv._internal_kv_del(self._key)
        wanted = [bundle for key in internal_kv._internal_kv_list(_REQUESTS) for bundle in _read_request(key)]
        if wanted != self._asked:
            request_resources(bundles=wanted)
            self._asked = wanted
        return {}

    def facts(self) -> Json:
        """`autoscales`: whether there is an autoscaler, None if not known. `kinds`: types of node that it can start."""
        kinds = self._kinds()
        return {"autoscales": True if kinds else self._autoscales(), "kinds": kinds}

    def leaving(self) -> set[str]:
        """Ids of nodes that are being drained."""
        if self._is_client:
            return set()
        with contextlib.suppress(Exception):  # not in every version of Ray
            client = ray._private.worker.global_worker.gcs_client
            return {node.hex() if isinstance(node, bytes) else str(node) for node in client.get_draining_nodes()}
        return set()

    def _kinds(self) -> list[Json]:
        if self._is_client:
            return []
        with contextlib.suppress(Exception):  # only some autoscalers report it
            config: Any = ray._private.state.state.get_cluster_config()
            return [
                {"name": kind.name, "resources": dict(kind.resources), "max": kind.max_count}
                for kind in (config.node_group_configs if config is not None else ())
            ]
        return []

    def _autoscales(self) -> bool | None:
        """Tell whether there is an autoscaler. Without one, Ray reports each node as of a type of its own."""
        status = internal_kv._internal_kv_get(_STATUS)
        if not status:
            return None
        with contextlib.suppress(ValueError, AttributeError):
            kinds = json.loads(status).get("autoscaler_report", {}).get("node_type_mapping", {})
            return not all(kind == _READ_ONLY_KIND + node for node, kind in kinds.items()) if kinds else None
        return None


def _read_request(key: bytes) -> list[dict[str, float]]:
    try:
        request = json.loads(internal_kv._internal_kv_get(key))
    except (TypeError, ValueError):
        return []
    if time.time() - float(request["at"]) > _REQUEST_SECONDS:
        return []
    found: list[dict[str, float]] = request["bundles"]
    return found
