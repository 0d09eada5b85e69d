"""Handles of the actors on the nodes. It imports ray: only the bridge may import it."""

import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError, RuntimeEnvSetupError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from runyard.compute.ray.names import agent_name
from runyard.compute.ray.node_actor import RayNodeAgent
from runyard.core.errors import EngineError, Json, to_wire
from runyard.core.version import VERSION

_THREADS = 64
_LEAVE_SECONDS = 5.0


class NodeActors:
    def __init__(self, service: str) -> None:
        self._service = service
        self._handles: dict[str, Any] = {}
        self._locks: dict[str, threading.Lock] = defaultdict(threading.Lock)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="agent")

    def ask_all(self, requests: list[Json], seconds: float) -> list[Json]:
        """Send `[{"node", "request"}]` to the agents of those nodes, all at once. Returns answers in the same order;
        that of a node which did not answer is `{"error", "is_silent": True}`."""
        return list(self._threads.map(lambda each: self._answer(each["node"], each["request"], seconds), requests))

    def end_agent(self, node: Json) -> bool:
        """End the node's agent, which keeps Ray from scaling the node down. Returns False while it is needed."""
        with self._locks[node["id"]]:
            handle = self._find(node)
            if handle is None:
                return True
            if not ray.get(handle.ask.remote({"op": "leave"}), timeout=_LEAVE_SECONDS).get("is_free"):
                return False
            self._handles.pop(node["id"], None)
            ray.kill(handle)
            return True

    def replace(self, node: Json) -> None:
        """Kill the node's actor, which has not answered for long. The next request starts a new one, which finds the
        agent."""
        with self._locks[node["id"]]:
            handle = self._find(node)
            self._handles.pop(node["id"], None)
            if handle is not None:
                ray.kill(handle)

    def _answer(self, node: Json, request: Json, seconds: float) -> Json:
        try:
            return self._ask(node, request, seconds)
        except EngineError as e:
            return {"error": to_wire(e), "is_silent": True}

    def _ask(self, node: Json, request: Json, seconds: float) -> Json:
        try:
            return self._ask_once(node, request, seconds)
        except RayActorError:  # the actor was killed: the next one finds the agent
            self._handles.pop(node["id"], None)
        try:
            return self._ask_once(node, request, seconds)
        except RayActorError as e:
            self._handles.pop(node["id"], None)
            raise EngineError(_words(node, e), hint=_REMEDY if _lacks_runyard(e) else "") from e

    def _ask_once(self, node: Json, request: Json, seconds: float) -> Json:
        try:
            with self._locks[node["id"]]:
                handle = self._handles.get(node["id"]) or self._ensure(node)
                answer = handle.ask.remote(request)
            found: Json = ray.get(answer, timeout=seconds)
        except GetTimeoutError as e:
            raise EngineError(f"Ray node {node['address']} did not answer within {seconds:.0f} s.") from e
        except RayActorError:
            raise
        except (RayError, RuntimeEnvSetupError, ValueError) as e:
            raise EngineError(_words(node, e), hint=_REMEDY if _lacks_runyard(e) else "") from e
        return found

    def _ensure(self, node: Json) -> Any:
        handle = self._handles[node["id"]] = (
            ray.remote(RayNodeAgent)
            .options(
                name=self._name(node),
                lifetime="detached",
                get_if_exists=True,
                num_cpus=0,
                max_restarts=-1,
                max_concurrency=8,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node["id"], soft=False),
            )
            .remote(self._service, node["address"])
        )
        return handle

    def _find(self, node: Json) -> Any | None:
        try:
            return self._handles.get(node["id"]) or ray.get_actor(self._name(node))
        except ValueError:
            return None

    def _name(self, node: Json) -> str:
        return agent_name(self._service, VERSION, node["id"])


_REMEDY = f"Install Runyard into the Python of Ray on every node: pip install 'runyard[ray]=={VERSION}'"


def _lacks_runyard(error: Exception) -> bool:
    return "No module named 'runyard" in str(error)


def _words(node: Json, error: Exception) -> str:
    if _lacks_runyard(error):
        return f"The Python of Ray on node {node['address']} cannot import runyard {VERSION}."
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return f"The agent on Ray node {node['address']} cannot be reached: {lines[0][:300]}"
