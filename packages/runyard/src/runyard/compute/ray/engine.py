import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from runyard.compute.ray.cluster_client import NodeSilent, RayCluster
from runyard.compute.ray.cluster_state import ClusterState, RayNode
from runyard.compute.remote.nodes import GIVE_UP_SECONDS, Placement, Placements, RemoteNode, UnresponsiveNodes
from runyard.core.errors import EngineError, Json
from runyard.core.plan_json import plan_to_json
from runyard.core.ports.engine import Capabilities, NodeTaskPhase, ObservedTask, Ticket, ticket_for
from runyard.core.records.launch_plan import LaunchPlan
from runyard.core.version import VERSION

_MOST_NODES = 10_000
_START_SECONDS = 30.0
_ASK_SECONDS = 10.0
_ASK_SILENT_SECONDS = 1.0
"""For a node that has not answered before: the others must not wait for it each time."""
_AWAY_SECONDS = 300.0
"""By default raylets exit a minute after their head is gone, and our agents with them."""


class RayEngine:
    """Starts supervisors on the nodes of a Ray cluster, which share no files with the service.

    An attempt is found again by its id: its nodes are in the service's home, its tasks in the homes of the nodes.
    """

    def __init__(
        self,
        cluster: RayCluster,
        placements: Placements,
        service_facts: Callable[[], Json],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`service_facts` returns url and ca by which nodes reach the service."""
        self._cluster, self._placements, self._service_facts = cluster, placements, service_facts
        self._unresponsive = UnresponsiveNodes(clock)
        self._stopped: set[str] = set()
        self.capabilities = Capabilities(_MOST_NODES)

    def submit(self, plan: LaunchPlan) -> Ticket:
        placement = self._placements.find(plan.attempt_id) or self._place(plan)
        service = self._service_facts()
        requests = []
        for index, (part, node) in enumerate(placement.parts()):
            body = plan_to_json(replace(plan, node=index))
            request = {"op": "start", "part": part, "plan": body, "service": service, "version": VERSION}
            requests.append((node, request))
        answers = self._ask(requests, _START_SECONDS)
        state = self._cluster.refresh()
        for (node, _), answer in zip(requests, answers, strict=True):
            # A task on a node that has left meanwhile is observed as gone later; the others are started.
            if isinstance(answer, EngineError) and _is_in_cluster(state, node):
                raise answer
        return ticket_for(plan.attempt_id, len(plan.nodes))

    def observe(self, tickets: Sequence[Ticket]) -> Mapping[Ticket, Sequence[ObservedTask]]:
        if not tickets:
            return {}
        self._stopped = {attempt for attempt in self._stopped if self._placements.find(attempt) is not None}
        placements = {ticket: self._placements.find(ticket.attempt_id) for ticket in tickets}
        if self._cluster.link.away_seconds() > _AWAY_SECONDS:
            why = f"The Ray cluster at {self._cluster.link.address} has not answered for {_AWAY_SECONDS:.0f} s."
            return {ticket: _all_gone(placement, why) for ticket, placement in placements.items()}
        state = self._cluster.refresh()
        seen, silent = self._ask_phases(state, [found for found in placements.values() if found is not None])
        if silent:  # it may have left between the two requests
            state = self._cluster.refresh()
            still_silent = {node_id: error for node_id, error in silent.items() if _is_alive(state, node_id)}
            if still_silent and not seen and not all(map(self._unresponsive.is_final, still_silent)):
                raise next(iter(still_silent.values()))
        return {
            ticket: [ObservedTask(NodeTaskPhase.LOST)]
            if placement is None
            else [self._observed(state, placement, node, seen.get(part)) for part, node in placement.parts()]
            for ticket, placement in placements.items()
        }

    def recover(self, ticket: Ticket, node: int) -> None:
        placement = self._placements.find(ticket.attempt_id)
        if placement is not None:
            part, place = placement.parts()[node]
            (answer,) = self._ask([(place, {"op": "recover", "part": part})])
            if isinstance(answer, EngineError):
                raise answer

    def cancel(self, ticket: Ticket, *, grace: timedelta, end_as: str = "canceled") -> None:
        placement = self._placements.find(ticket.attempt_id)
        if placement is None:
            return
        self._stopped.add(placement.attempt_id)
        state = self._cluster.refresh()
        request = {"op": "cancel", "grace": grace.total_seconds(), "end_as": end_as}
        asked = [(node, {**request, "part": part}) for part, node in placement.parts() if _is_in_cluster(state, node)]
        failures = [answer for answer in self._ask(asked) if isinstance(answer, EngineError)]
        if failures:
            raise failures[0]

    def _place(self, plan: LaunchPlan) -> Placement:
        """Place an attempt on the nodes that the run holds; a preparation, which holds none, on any node."""
        state = self._cluster.refresh()
        allocation = state.allocation_of(plan.run_id)
        if allocation is not None and allocation.is_ready and len(allocation.node_ids) == len(plan.nodes):
            nodes = [state.node(node_id) for node_id in allocation.node_ids]
        elif plan.kind == "prepare":
            nodes = [_least_busy(state)]
        else:
            raise EngineError(f"Run {plan.run_id} holds no nodes of the Ray cluster at {self._cluster.link.address}.")
        placement = Placement(plan.attempt_id, plan.run_id, tuple(node for node in nodes if node is not None))
        self._placements.keep(placement)
        return placement

    def _ask_phases(
        self, state: ClusterState, placements: Sequence[Placement]
    ) -> tuple[dict[str, NodeTaskPhase], dict[str, EngineError]]:
        """Phases of the tasks on living nodes, and the errors of nodes that did not answer."""
        by_node: dict[str, list[str]] = defaultdict(list)
        places: dict[str, RemoteNode] = {}
        for placement in placements:
            for part, node in placement.parts():
                if _is_in_cluster(state, node):
                    by_node[node.id].append(part)
                    places[node.id] = node
        asked = [(places[node_id], {"op": "phases", "parts": parts}) for node_id, parts in by_node.items()]
        seen: dict[str, NodeTaskPhase] = {}
        silent: dict[str, EngineError] = {}
        for (node, _), answer in zip(asked, self._ask(asked), strict=True):
            if isinstance(answer, EngineError):
                silent[node.id] = answer
            else:
                seen.update({part: NodeTaskPhase(phase) for part, phase in answer["phases"].items()})
        return seen, silent

    def _ask(
        self, requests: Sequence[tuple[RemoteNode, Json]], seconds: float = _ASK_SECONDS
    ) -> Sequence[Json | EngineError]:
        """Send each request to its node, in two rounds: unresponsive nodes do not delay the others."""
        known = {node.id for node, _ in requests if self._unresponsive.is_silent(node.id)}
        answers: dict[int, Json | EngineError] = {}
        for are_silent, patience in ((False, seconds), (True, _ASK_SILENT_SECONDS)):
            asked = {number: each for number, each in enumerate(requests) if (each[0].id in known) == are_silent}
            if asked:
                answers.update(zip(asked, self._cluster.ask(list(asked.values()), seconds=patience), strict=True))
        for number, (node, _) in enumerate(requests):
            self._note_answer(node, answers[number])
        return [answers[number] for number in range(len(requests))]

    def _note_answer(self, node: RemoteNode, answer: Json | EngineError) -> None:
        if not isinstance(answer, NodeSilent):
            self._unresponsive.answered(node.id)
            return
        self._unresponsive.missed(node.id)
        if self._unresponsive.wants_replacement(node.id):
            with contextlib.suppress(EngineError):
                self._cluster.replace_agent(node)

    def _observed(
        self, state: ClusterState, placement: Placement, node: RemoteNode, phase: NodeTaskPhase | None
    ) -> ObservedTask:
        if phase is not None:
            return ObservedTask(phase)
        named = f"Node {node.name} ({node.address})"
        if _is_in_cluster(state, node):
            # Ray calls the node alive, and its supervisors report by themselves, so silence is no sign of loss. But a
            # run that was asked to stop must end.
            if self._unresponsive.is_final(node.id) and placement.attempt_id in self._stopped:
                why = f"{named} has not answered for {GIVE_UP_SECONDS:.0f} s, though Ray calls it alive."
                return ObservedTask(NodeTaskPhase.GONE, why)
            return ObservedTask(NodeTaskPhase.ALIVE, f"{named} does not answer.")
        known = state.node(node.id)
        reason = f" Ray says: {known.why}" if known is not None and known.why else ""
        return ObservedTask(NodeTaskPhase.GONE, f"{named} has left the Ray cluster.{reason}")


def _is_in_cluster(state: ClusterState, node: RemoteNode) -> bool:
    return _is_alive(state, node.id)


def _is_alive(state: ClusterState, node_id: str) -> bool:
    found = state.node(node_id)
    return found is not None and found.is_alive


def _all_gone(placement: Placement | None, why: str) -> list[ObservedTask]:
    return [ObservedTask(NodeTaskPhase.GONE, why)] * (1 if placement is None else len(placement.nodes))


def _least_busy(state: ClusterState) -> RayNode:
    """Least busy living node; workers before the head, because a build takes a machine's cores."""
    held = [node_id for allocation in state.allocations for node_id in allocation.node_ids]
    living = [node for node in state.nodes if node.is_alive and not node.is_leaving]
    if not living:
        raise EngineError("The Ray cluster has no living node.")
    return min(living, key=lambda node: (node.is_head, held.count(node.id)))
