"""Contract tests of compute engines, on real nodes with real supervisors: the ports Engine and NodePool together.

An engine whose nodes cannot be lost without the machine leaves `lose_node` at None; those tests are skipped.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, TypeVar

import pytest

from runyard.core.definitions.run import RunDefinition
from runyard.core.errors import EngineError
from runyard.core.ports.engine import NodeTaskPhase, ObservedTask, Site, Ticket, ticket_for
from runyard.core.records.assets import Asset, AssetKind
from runyard.core.records.launch_plan import EnvironmentSpec, LaunchPlan, NodePlan, ProcessSpec
from runyard.core.records.nodes import Node, NodeAllocation, NodeState
from runyard.core.records.runs import AttemptId, RunId, RunRecord
from runyard.node.processes.procfs import ProcessId, processes_with_variable
from runyard.testing.records import a_run

SECONDS = 30.0
T = TypeVar("T")
GOES_ON = """
import os, subprocess, sys, time
apart = "import os, time; os.setsid(); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", apart])
print("begun", flush=True)
time.sleep(600)
"""


class Peer(Protocol):
    """Fake of the service for supervisors: collects their reports and logs."""

    reports: list[dict[str, Any]]
    logs: dict[str, bytes]

    def wait_for(self, what: Callable[[], T], seconds: float = SECONDS) -> T: ...

    def gather(self, attempt_id: str, node_count: int, stop: Callable[[str, str], None]) -> None:
        """Coordinate these nodes as the service does. Calls `stop` with the attempt and the outcome it must report."""


@dataclass
class EngineHarness:
    """An engine under test, and ways to reach its nodes without it."""

    peer: Peer
    open_site: Callable[[], Site]
    """Opens the site of the same cluster again, as after a restart of the service."""
    body: dict[str, Any]
    """Body of the compute target, with `max_nodes` of at least two."""
    kill_supervisor: Callable[[str], None]
    """Called with the id of a node task."""
    kill_agent: Callable[[str], None]
    """Called with the id of a task on that node."""
    lose_node: Callable[[Node], None] | None = None

    def __post_init__(self) -> None:
        self.site = self.open_site()

    @property
    def cluster(self) -> Asset:
        now = datetime.now(UTC)
        return Asset("c1", "vision", AssetKind.COMPUTE, "gang", 1, now, now, body=self.body)

    def take(self, run: RunRecord) -> NodeAllocation:
        return eventually(lambda: self.site.pool.hold(self.cluster, run), lambda allocation: bool(allocation.nodes))

    def start(self, run: RunRecord, script: str) -> Ticket:
        allocation = self.take(run)
        self.gather(run, len(allocation.nodes))
        return self.site.engine.submit(self.plan(run, allocation, script))

    def gather(self, run: RunRecord, node_count: int) -> None:
        """Let the nodes find each other, and end those that only wait when all work is done. Failures are left to the
        test."""
        ticket = ticket_for(f"{run.id}.1", node_count)

        def stop(_: str, end_as: str) -> None:
            if end_as == "completed":
                self.site.engine.cancel(ticket, grace=timedelta(seconds=1), end_as=end_as)

        self.peer.gather(f"{run.id}.1", node_count, stop)

    def plan(self, run: RunRecord, allocation: NodeAllocation, script: str) -> LaunchPlan:
        nodes = tuple(
            NodePlan(node.address, (_process(rank, script, len(allocation.nodes)),), name=node.name)
            for rank, node in enumerate(allocation.nodes)
        )
        return LaunchPlan(
            attempt_id=AttemptId(f"{run.id}.1"),
            run_id=run.id,
            kind="run",
            environment=EnvironmentSpec(python=sys.executable, user_managed=True),
            nodes=nodes,
            env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
            cancel_grace_seconds=0.5,
            shares_files=self.site.shares_files,
        )

    def phases(self, ticket: Ticket) -> list[NodeTaskPhase]:
        return [seen.phase for seen in self.site.engine.observe([ticket])[ticket]]

    def seen(self, ticket: Ticket) -> Sequence[ObservedTask]:
        """Observations; empty while the engine raises, because it has not noticed yet that a node is gone."""
        try:
            return self.site.engine.observe([ticket])[ticket]
        except EngineError:
            return []

    def begun(self, run: RunRecord, count: int) -> None:
        self.peer.wait_for(lambda: sum(b"begun" in log for log in self.logs_of(run)) == count)

    def logs_of(self, run: RunRecord) -> list[bytes]:
        return [content for path, content in self.peer.logs.items() if "70_driver_log" in path]

    def ended(self, count: int) -> list[dict[str, Any]]:
        """Wait for the final reports of so many node tasks."""

        def found() -> list[dict[str, Any]]:
            last = {report["node"]: report for report in self.peer.reports if report["state"] == "ended"}
            return list(last.values()) if len(last) == count else []

        return self.peer.wait_for(found)

    def processes(self, run: RunRecord) -> set[ProcessId]:
        return processes_with_variable("RUNYARD_ATTEMPT", f"{run.id}.1")


class EngineSuite:
    @pytest.fixture
    def desk(self) -> EngineHarness:
        raise NotImplementedError("supply a `desk` fixture in the subclass")

    def test_an_allocation_has_as_many_nodes_as_it_asked_for_each_with_an_address(self, desk: EngineHarness) -> None:
        allocation = desk.take(on_nodes("gang-1", 2))
        assert len({node.name for node in allocation.nodes}) == 2
        assert all(node.address and node.run_id == "gang-1" for node in allocation.nodes)

    def test_holding_twice_makes_one_allocation(self, desk: EngineHarness) -> None:
        run = on_nodes("held-1", 2)
        first = desk.take(run)
        assert [node.name for node in desk.take(run).nodes] == [node.name for node in first.nodes]
        assert [node.name for node in desk.site.pool.held_by(desk.cluster, run).nodes] == [n.name for n in first.nodes]

    def test_a_run_beyond_the_most_nodes_waits_and_says_for_whom(self, desk: EngineHarness) -> None:
        most = int(desk.body["max_nodes"])
        desk.take(on_nodes("first-1", most))
        waiting = desk.site.pool.hold(desk.cluster, on_nodes("second-1", 1))
        assert not waiting.nodes
        assert "first-1" in waiting.waits_for

    def test_released_nodes_go_to_the_next_run(self, desk: EngineHarness) -> None:
        most = int(desk.body["max_nodes"])
        desk.take(on_nodes("first-1", most))
        desk.site.pool.release(RunId("first-1"))
        desk.site.pool.release(RunId("first-1"))
        assert len(desk.take(on_nodes("second-1", most)).nodes) == most

    def test_nodes_of_runs_that_ended_are_freed_when_the_pool_is_resized(self, desk: EngineHarness) -> None:
        most = int(desk.body["max_nodes"])
        desk.take(on_nodes("forgotten-1", most))
        desk.site.pool.resize([desk.cluster], living=set())
        assert len(desk.take(on_nodes("next-1", most)).nodes) == most

    def test_states_of_nodes_follow_the_run_that_holds_them(self, desk: EngineHarness) -> None:
        desk.take(on_nodes("seen-1", 1))
        running = [node for node in desk.site.pool.list(desk.cluster) if node.state is NodeState.RUNNING]
        assert [node.run_id for node in running] == ["seen-1"]
        desk.site.pool.release(RunId("seen-1"))
        assert all(node.state is not NodeState.RUNNING for node in desk.site.pool.list(desk.cluster))

    def test_a_job_starts_on_all_its_nodes_together(self, desk: EngineHarness) -> None:
        run = on_nodes("together-1", 2)
        desk.start(run, "import os; print('part', os.environ['RUNYARD_PART'])")
        assert {report["outcome"] for report in desk.ended(2)} == {"completed"}
        parts = {line for log in desk.logs_of(run) for line in log.decode().splitlines() if line.startswith("part")}
        assert parts == {"part together-1.1", "part together-1.1-1"}

    def test_scripts_see_nothing_of_the_engine(self, desk: EngineHarness) -> None:
        run = on_nodes("clean-1", 1)
        desk.start(run, "import os; print('seen', sorted(n for n in os.environ if n.startswith(('RAY_', 'PYTHONB'))))")
        desk.ended(1)
        assert b"seen []" in b"".join(desk.logs_of(run))

    def test_asking_twice_starts_one_job(self, desk: EngineHarness) -> None:
        run = on_nodes("twice-1", 1)
        allocation = desk.take(run)
        desk.gather(run, 1)
        plan = desk.plan(run, allocation, "print('once')")
        assert desk.site.engine.submit(plan) == desk.site.engine.submit(plan) == ticket_for("twice-1.1", 1)
        desk.ended(1)
        assert b"".join(desk.logs_of(run)).count(b"once\n") == 1

    def test_an_unknown_ticket_has_one_part_that_is_lost_and_is_left_alone(self, desk: EngineHarness) -> None:
        unknown = ticket_for("nobody-1.1", 1)
        assert desk.phases(unknown) == [NodeTaskPhase.LOST]
        desk.site.engine.cancel(unknown, grace=timedelta(0))

    def test_a_job_is_alive_on_each_node_for_as_long_as_it_runs(self, desk: EngineHarness) -> None:
        run = on_nodes("alive-1", 2)
        ticket = desk.start(run, GOES_ON)
        desk.begun(run, 2)
        assert desk.phases(ticket) == [NodeTaskPhase.ALIVE, NodeTaskPhase.ALIVE]
        desk.site.engine.cancel(ticket, grace=timedelta(seconds=0.2))
        desk.ended(2)
        eventually(lambda: desk.phases(ticket), lambda phases: phases == [NodeTaskPhase.LOST, NodeTaskPhase.LOST])

    @pytest.mark.parametrize("end_as", ["canceled", "failed", "completed"])
    def test_a_job_that_is_told_to_stop_ends_as_told_and_leaves_no_process(
        self, desk: EngineHarness, end_as: str
    ) -> None:
        run = on_nodes(f"stopped-{end_as}", 2)  # what cleans up after one attempt must not meet the next
        ticket = desk.start(run, GOES_ON)
        desk.begun(run, 2)
        asked_at = time.monotonic()
        desk.site.engine.cancel(ticket, grace=timedelta(seconds=0.2), end_as=end_as)
        assert {report["outcome"] for report in desk.ended(2)} == {end_as}
        assert time.monotonic() - asked_at < 5
        assert desk.processes(run) == set()

    def test_a_killed_supervisor_is_replaced_and_its_processes_are_ended(self, desk: EngineHarness) -> None:
        run = on_nodes("orphan-1", 2)
        ticket = desk.start(run, GOES_ON)
        desk.begun(run, 2)
        desk.kill_supervisor("orphan-1.1-1")
        lost = desk.peer.wait_for(
            lambda: [report for report in desk.peer.reports if report["state"] == "ended" and report["node"] == 1]
        )
        assert lost[0]["outcome"] == "failed"
        eventually(lambda: processes_with_variable("RUNYARD_PART", "orphan-1.1-1"), lambda left: not left)
        assert desk.phases(ticket)[0] is NodeTaskPhase.ALIVE
        desk.site.engine.cancel(ticket, grace=timedelta(seconds=0.2), end_as="failed")
        desk.ended(2)

    def test_a_killed_agent_ends_no_job(self, desk: EngineHarness) -> None:
        run = on_nodes("agentless-1", 1)
        ticket = desk.start(run, GOES_ON)
        desk.begun(run, 1)
        desk.kill_agent("agentless-1.1")
        assert desk.phases(ticket) == [NodeTaskPhase.ALIVE]
        desk.site.engine.cancel(ticket, grace=timedelta(seconds=0.2))
        assert desk.ended(1)[0]["outcome"] == "canceled"
        assert desk.processes(run) == set()

    def test_a_restarted_service_finds_its_jobs_and_its_allocations(self, desk: EngineHarness) -> None:
        run = on_nodes("found-1", 2)
        ticket = desk.start(run, GOES_ON)
        desk.begun(run, 2)
        before = [node.name for node in desk.site.pool.held_by(desk.cluster, run).nodes]
        desk.site = desk.open_site()
        assert [node.name for node in desk.take(run).nodes] == before
        assert desk.phases(ticket) == [NodeTaskPhase.ALIVE, NodeTaskPhase.ALIVE]
        desk.site.engine.cancel(ticket, grace=timedelta(seconds=0.2))
        assert {report["outcome"] for report in desk.ended(2)} == {"canceled"}

    def test_a_lost_node_is_gone_with_all_that_ran_there_and_its_peers_go_on(self, desk: EngineHarness) -> None:
        if desk.lose_node is None:
            pytest.skip("the nodes of this engine are lost with the machine alone")
        run = on_nodes("lost-1", 2)
        ticket = desk.start(run, GOES_ON)
        desk.begun(run, 2)
        node = desk.site.pool.held_by(desk.cluster, run).nodes[1]
        desk.lose_node(node)
        eventually(lambda: processes_with_variable("RUNYARD_PART", "lost-1.1-1"), lambda left: not left, seconds=5)
        seen = eventually(
            lambda: desk.seen(ticket), lambda parts: len(parts) == 2 and parts[1].phase is NodeTaskPhase.GONE
        )
        assert node.address in seen[1].why
        assert seen[0].phase is NodeTaskPhase.ALIVE
        desk.site.engine.cancel(ticket, grace=timedelta(seconds=0.2), end_as="failed")
        eventually(lambda: desk.processes(run), lambda left: not left)


def on_nodes(run_id: str, count: int) -> RunRecord:
    return replace(a_run(run_id), target="gang", definition=RunDefinition({"nodeCount": count}))


def eventually(read: Callable[[], T], condition: Callable[[T], bool], seconds: float = SECONDS) -> T:
    """Poll until the condition holds; return that result."""
    ends_at = time.monotonic() + seconds
    while not condition(answer := read()):
        assert time.monotonic() < ends_at, f"after {seconds:.0f} s it is still {answer!r}"
        time.sleep(0.02)
    return answer


def kill(process: ProcessId) -> None:
    process.send(signal.SIGKILL)
    eventually(process.is_alive, lambda is_alive: not is_alive)


def _process(rank: int, script: str, count: int) -> ProcessSpec:
    log = "azureml-logs/70_driver_log.txt" if count == 1 else f"azureml-logs/70_driver_log_{rank}.txt"
    return ProcessSpec(rank, ("{python}", "-c", script), {}, log)
