from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from runyard.compute.fields import NoFields
from runyard.compute.gpus import find_gpus
from runyard.compute.kind import ComputeKind, SiteNeeds, SiteParts
from runyard.compute.local.pool import LocalPool
from runyard.core.plan_json import plan_to_json
from runyard.core.ports.engine import Capabilities, Disk, ObservedTask, Ticket, ticket_for
from runyard.core.records.launch_plan import LaunchPlan
from runyard.node.agent_client import AgentClient, NodeTasks


class LocalEngine:
    """Runs on this machine: its nodes are slots, and a warm agent forks a supervisor for each node task.

    Agent and supervisors outlive the service.
    """

    def __init__(self, home: Path, *, max_nodes: int = 64) -> None:
        self._agent = AgentClient(home)
        self._nodes = NodeTasks(home, self._agent)
        self.gpus = find_gpus()
        self.capabilities = Capabilities(max_nodes, tuple(gpu.index for gpu in self.gpus))

    def warm(self) -> None:
        """Start an agent of this version, so that the first run need not wait for it."""
        self._agent.ask({"op": "status"})

    def submit(self, plan: LaunchPlan) -> Ticket:
        ticket = ticket_for(plan.attempt_id, len(plan.nodes))
        # All plans first: once a supervisor runs, `observe` must see every task.
        for node, part in enumerate(ticket.parts()):
            self._nodes.write_plan(part, plan_to_json(replace(plan, node=node)))
        for part in ticket.parts():
            self._nodes.start(part)
        return ticket

    def observe(self, tickets: Sequence[Ticket]) -> Mapping[Ticket, Sequence[ObservedTask]]:
        return {ticket: [ObservedTask(self._nodes.phase(part)) for part in ticket.parts()] for ticket in tickets}

    def recover(self, ticket: Ticket, node: int) -> None:
        self._nodes.recover(ticket.parts()[node])

    def cancel(self, ticket: Ticket, *, grace: timedelta, end_as: str = "canceled") -> None:
        for part in ticket.parts():
            self._nodes.cancel(part, grace.total_seconds(), end_as)


def _make_site(target: NoFields, settings: NoFields, needs: SiteNeeds) -> SiteParts:
    engine = LocalEngine(needs.home)
    return SiteParts(engine, LocalPool(needs.nodes, needs.clock), needs.url, warm=engine.warm)


KIND = ComputeKind(
    name="local",
    title="This machine",
    target=NoFields,
    settings=NoFields,
    make=_make_site,
    disk=Disk.SERVICE,
    shown=lambda target: "this machine",
)
