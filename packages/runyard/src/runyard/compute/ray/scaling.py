import contextlib
import json
import time
from typing import Any

import ray
from ray.autoscaler.sdk import request_resources
from ray.experimental import internal_kv

from runyard.errors import Json

_STATUS = b"__autoscaling_status"
_REQUESTS = b"runyard:wishes:"
_REQUEST_SECONDS = 600.0
_READ_ONLY_KIND = "node_"


class Scaling:
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
