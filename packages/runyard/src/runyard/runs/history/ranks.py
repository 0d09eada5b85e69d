from collections.abc import Sequence
from dataclasses import dataclass

from runyard.access.authorization import Access
from runyard.core.definitions.node_report import NodeReport
from runyard.core.policy import Action
from runyard.core.ports.blobs import LogStore
from runyard.core.ports.stores import NodeTaskStore
from runyard.core.principal import Principal
from runyard.core.records.nodes import NodeTask, NodeTaskState
from runyard.core.records.runs import RunId, RunRecord, RunStatus, attempt_id
from runyard.runs.history.logs import RankLog, rank_logs
from runyard.runs.launch.distribution import DistributionKind, distribution_kind

_STATES = {**{state: state.value for state in NodeTaskState}, NodeTaskState.DONE: NodeTaskState.RUNNING.value}
_SINGLE_STATES = {RunStatus.STARTING: "ready", RunStatus.RUNNING: "running", RunStatus.FINALIZING: "running"}


@dataclass(frozen=True)
class NodeOfRun:
    """Node task of the present attempt, as shown to users."""

    node: int
    name: str
    address: str
    state: str
    """preparing, ready, running, failing or ended. A node that is done but serves the others is running."""
    outcome: str
    exit_code: int | None
    signal: int | None
    oom: bool
    message: str


@dataclass(frozen=True)
class RankOfRun:
    rank: int
    role: str
    log: str
    node: int | None
    """None while unknown."""
    exit_code: int | None
    signal: int | None


@dataclass(frozen=True)
class RanksOfRun:
    nodes: Sequence[NodeOfRun]
    ranks: Sequence[RankOfRun]


class Ranks:
    """Lists the processes of a run and their nodes."""

    def __init__(self, tasks: NodeTaskStore, logs: LogStore, access: Access) -> None:
        self._tasks, self._logs, self._access = tasks, logs, access

    def of(self, who: Principal, run_id: RunId) -> RanksOfRun:
        """Nodes and ranks of the present attempt. Silent ranks are listed once their node is ready."""
        run = self._access.run(who, Action.READ_RUN, run_id)
        tasks = {task.node: task for task in self._tasks.list(attempt_id(run.id, run.attempt))}
        names = run.nodes or (() if run.is_interactive else (run.target,))
        count = max(len(names), max(tasks, default=-1) + 1)
        nodes = [_node(run, names, node, tasks.get(node)) for node in range(count)]
        known = _ranks(list(tasks.values()), distribution_kind(run.definition))
        for log in rank_logs(self._logs.sizes(run_id), run.definition):
            known.setdefault(log.rank, _rank_of_log(log, run, nodes))
        return RanksOfRun(nodes, [known[rank] for rank in sorted(known)])


def _rank_of_log(log: RankLog, run: RunRecord, nodes: Sequence[NodeOfRun]) -> RankOfRun:
    """Rank that no node has reported. On a run with one node, the run's own exit facts tell its end."""
    if len(nodes) != 1:
        return RankOfRun(log.rank, log.role, log.path, None, None, None)
    facts = run.exit_facts or {}
    exit_code, signal = None, None
    if facts.get("rank", 0) == log.rank:
        exit_code, signal = facts.get("exit_code"), facts.get("signal")
    elif run.status is RunStatus.COMPLETED and log.role == "worker":
        exit_code = 0
    return RankOfRun(log.rank, log.role, log.path, 0, exit_code, signal)


def _node(run: RunRecord, names: Sequence[str], node: int, task: NodeTask | None) -> NodeOfRun:
    name = names[node] if node < len(names) else ""
    if task is None and len(names) == 1:
        return _single(run, name)
    report = task.report if task else NodeReport("preparing")
    return NodeOfRun(
        node=node,
        name=name,
        address=report.address,
        state=_STATES[task.state] if task else "preparing",
        outcome=report.outcome,
        exit_code=report.exit_code,
        signal=report.signal,
        oom=bool(report.oom),
        message=report.error.message if report.error else "",
    )


def _single(run: RunRecord, name: str) -> NodeOfRun:
    """Node of a run with one node, which has no node tasks: state and exit come from the run."""
    facts = run.exit_facts or {}
    is_over = run.status.is_terminal
    return NodeOfRun(
        node=0,
        name=name,
        address="",
        state="ended" if is_over else _SINGLE_STATES.get(run.status, "preparing"),
        outcome=run.status.value.lower() if is_over else "",
        exit_code=facts.get("exit_code"),
        signal=facts.get("signal"),
        oom=bool(facts.get("oom")),
        message="",
    )


def _ranks(tasks: Sequence[NodeTask], kind: DistributionKind) -> dict[int, RankOfRun]:
    """Ranks by number. Nodes report logs when they are ready, exits when they have ended."""
    exits = _exits(tasks, kind)
    return {
        one.rank: RankOfRun(one.rank, one.role, one.log, task.node, *exits.get(one.rank, (None, None)))
        for task in tasks
        for one in task.report.ranks
    }


def _exits(tasks: Sequence[NodeTask], kind: DistributionKind) -> dict[int, tuple[int | None, int | None]]:
    """Exit code and signal by rank. For MPI only the launcher's report counts: all is well, or which rank failed."""
    found: dict[int, tuple[int | None, int | None]] = {}
    for task in tasks:
        report = task.report
        if kind is not DistributionKind.MPI:
            found |= report.exits
        elif report.outcome == "completed":
            found |= {one.rank: (0, None) for one in report.ranks}
        elif report.error and report.rank is not None:
            found[report.rank] = (report.exit_code, report.signal)
    return found
