import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from runyard.compute.ray.link import BridgeLink
from runyard.compute.ray.names import GangName
from runyard.compute.ray.state import ClusterState, RayGang, gang_from_json, state_from_json
from runyard.compute.remote.placements import RemoteNode
from runyard.errors import EngineError, Json, from_wire

_STATE_SECONDS = 5.0
_ASK_SECONDS = 10.0
_FRESH_SECONDS = 0.5


class NodeSilent(EngineError):
    """The node gave no answer, good or bad."""


class RayCluster:
    """One Ray cluster as the service sees it, through the bridge. Every method raises EngineError when it is away."""

    def __init__(self, link: BridgeLink, clock: Callable[[], float] = time.monotonic) -> None:
        self.link = link
        self._clock = clock
        self._state: ClusterState | None = None
        self._seen_at = 0.0

    def state(self, *, patience_seconds: float = 0.0) -> ClusterState:
        """As it is now, give or take half a second."""
        if self._state is None or self._clock() - self._seen_at > _FRESH_SECONDS:
            return self.look(patience_seconds=patience_seconds)
        return self._state

    def look(self, *, patience_seconds: float = 0.0) -> ClusterState:
        """As it is now."""
        body = self.link.call("state", seconds=_STATE_SECONDS, patience_seconds=patience_seconds)
        self._state, self._seen_at = state_from_json(body), self._clock()
        return self._state

    def forget(self) -> None:
        """What was seen is no longer so."""
        self._state = None

    def ask_gang(self, name: GangName, bundle: Mapping[str, float], count: int) -> RayGang | None:
        """Have so many nodes kept for a run, each with room for the bundle; safe to repeat."""
        self.forget()
        return gang_from_json(
            self.link.call("gang", seconds=_ASK_SECONDS, name=str(name), bundles=[dict(bundle)] * count)
        )

    def drop_gang(self, name: GangName) -> None:
        self.forget()
        self.link.call("drop", seconds=_ASK_SECONDS, name=str(name))

    def want(self, bundles: Sequence[Mapping[str, float]]) -> None:
        self.link.call("minima", seconds=_ASK_SECONDS, bundles=[dict(bundle) for bundle in bundles])

    def ask(
        self, requests: Sequence[tuple[RemoteNode, Json]], *, seconds: float = _ASK_SECONDS
    ) -> list[Json | EngineError]:
        """Each request to the agent of its node, all at once; what went wrong with one is its answer."""
        body: list[dict[str, Any]] = [{"node": _place(node), "request": request} for node, request in requests]
        answers = self.link.call("ask", seconds=seconds, requests=body)
        return [_error(answer) if "error" in answer else answer for answer in answers]

    def replace_agent(self, node: RemoteNode) -> None:
        """Have another actor stand in for one that does not answer."""
        self.link.call("replace", seconds=_ASK_SECONDS, node=_place(node))

    def let_go(self, node: RemoteNode) -> bool:
        """End the warm agent of a node that has nothing to do, so that Ray may give it back."""
        return bool(self.link.call("let_go", seconds=_ASK_SECONDS, node=_place(node)))


def _place(node: RemoteNode) -> Json:
    return {"id": node.id, "address": node.address}


def _error(answer: Json) -> EngineError:
    found = from_wire(answer["error"])
    if answer.get("is_silent"):
        return NodeSilent(found.problem, hint=found.hint)
    return found if isinstance(found, EngineError) else EngineError(found.problem, hint=found.hint)
