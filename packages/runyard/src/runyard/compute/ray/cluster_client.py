import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from runyard.compute.ray.cluster_state import ClusterState, RayAllocation, allocation_from_json, state_from_json
from runyard.compute.ray.link import BridgeLink
from runyard.compute.ray.names import AllocationName
from runyard.compute.remote.nodes import RemoteNode
from runyard.core.errors import EngineError, Json, from_wire

_STATE_SECONDS = 5.0
_ASK_SECONDS = 10.0
_FRESH_SECONDS = 0.5


class NodeSilent(EngineError):
    """The node did not answer at all."""


class RayCluster:
    """Client of one Ray cluster, through the bridge. Every method raises EngineError when the cluster is away."""

    def __init__(self, link: BridgeLink, clock: Callable[[], float] = time.monotonic) -> None:
        self.link = link
        self._clock = clock
        self._state: ClusterState | None = None
        self._seen_at = 0.0

    def state(self, *, patience_seconds: float = 0.0) -> ClusterState:
        """State of the cluster, at most half a second old."""
        if self._state is None or self._clock() - self._seen_at > _FRESH_SECONDS:
            return self.refresh(patience_seconds=patience_seconds)
        return self._state

    def refresh(self, *, patience_seconds: float = 0.0) -> ClusterState:
        """Read the state of the cluster now."""
        body = self.link.call("state", seconds=_STATE_SECONDS, patience_seconds=patience_seconds)
        self._state, self._seen_at = state_from_json(body), self._clock()
        return self._state

    def forget(self) -> None:
        """Drop the cached state."""
        self._state = None

    def request_allocation(self, name: AllocationName, bundle: Mapping[str, float], count: int) -> RayAllocation | None:
        """Request that many nodes for a run, each with the resources of the bundle. Safe to repeat."""
        self.forget()
        # "gang" is the name in the messages of the bridge.
        return allocation_from_json(
            self.link.call("gang", seconds=_ASK_SECONDS, name=str(name), bundles=[dict(bundle)] * count)
        )

    def release_allocation(self, name: AllocationName) -> None:
        self.forget()
        self.link.call("drop", seconds=_ASK_SECONDS, name=str(name))

    def request_minimum(self, bundles: Sequence[Mapping[str, float]]) -> None:
        self.link.call("minima", seconds=_ASK_SECONDS, bundles=[dict(bundle) for bundle in bundles])

    def ask(
        self, requests: Sequence[tuple[RemoteNode, Json]], *, seconds: float = _ASK_SECONDS
    ) -> list[Json | EngineError]:
        """Send each request to the agent of its node, all at once. An error is the answer of its request."""
        body: list[dict[str, Any]] = [{"node": _place(node), "request": request} for node, request in requests]
        answers = self.link.call("ask", seconds=seconds, requests=body)
        return [_error(answer) if "error" in answer else answer for answer in answers]

    def replace_agent(self, node: RemoteNode) -> None:
        """Replace the actor of a node that does not answer."""
        self.link.call("replace", seconds=_ASK_SECONDS, node=_place(node))

    def end_agent(self, node: RemoteNode) -> bool:
        """End the agent of an idle node, so that Ray may scale the node down. False while it is needed."""
        return bool(self.link.call("let_go", seconds=_ASK_SECONDS, node=_place(node)))


def _place(node: RemoteNode) -> Json:
    return {"id": node.id, "address": node.address}


def _error(answer: Json) -> EngineError:
    found = from_wire(answer["error"])
    if answer.get("is_silent"):
        return NodeSilent(found.problem, hint=found.hint)
    return found if isinstance(found, EngineError) else EngineError(found.problem, hint=found.hint)
