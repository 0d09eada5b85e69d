from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from runyard.compute.local.gpus import find_gpus
from runyard.compute.local.node_parts import NodeParts
from runyard.compute.local.warm_agent import WarmAgent
from runyard.model.plan import LaunchPlan
from runyard.planning.plan_json import plan_to_json
from runyard.ports.engine import Capabilities, Observed, Ticket, ticket_for


class LocalEngine:
    """Runs on this machine: its nodes are slots, and a warm agent forks a supervisor for each node task.

    Agent and supervisors outlive the service.
    """

    def __init__(self, home: Path, *, max_nodes: int = 64) -> None:
        self._agent = WarmAgent(home)
        self._nodes = NodeParts(home, self._agent)
        self.gpus = find_gpus()
        self.capabilities = Capabilities(max_nodes, tuple(gpu.index for gpu in self.gpus))

    def warm(self) -> None:
        """Start an agent of this version, so that the first run need not wait for it."""
        self._agent.ask({"op": "status"})

    def submit(self, plan: LaunchPlan) -> Ticket:
        ticket = ticket_for(plan.attempt_id, len(plan.nodes))
        # All plans first: once a supervisor runs, `observe` must see every task.
        for node, part in enumerate(ticket.parts()):
            self._nodes.lay_out(part, plan_to_json(replace(plan, node=node)))
        for part in ticket.parts():
            self._nodes.start(part)
        return ticket

    def observe(self, tickets: Sequence[Ticket]) -> Mapping[Ticket, Sequence[Observed]]:
        return {ticket: [Observed(self._nodes.phase(part)) for part in ticket.parts()] for ticket in tickets}

    def recover(self, ticket: Ticket, node: int) -> None:
        self._nodes.recover(ticket.parts()[node])

    def cancel(self, ticket: Ticket, *, grace: timedelta, end_as: str = "canceled") -> None:
        for part in ticket.parts():
            self._nodes.cancel(part, grace.total_seconds(), end_as)
