from collections.abc import Sequence
from dataclasses import dataclass

from runyard.core.definitions.report import NodeReport
from runyard.core.policy import Action
from runyard.core.principal import Principal
from runyard.model.parts import Part, PartState
from runyard.model.runs import RunId, RunRecord, RunStatus, attempt_id
from runyard.planning.distribution import Kind, kind_of
from runyard.ports.blobs import LogStore
from runyard.ports.stores import PartStore
from runyard.runs.history.rank_logs import RankLog, rank_logs
from runyard.services.access import Access

_STATES = {**{state: state.value for state in PartState}, PartState.DONE: PartState.RUNNING.value}
_SINGLE_STATES = {RunStatus.STARTING: "ready", RunStatus.RUNNING: "running", RunStatus.FINALIZING: "running"}


@dataclass(frozen=True)
class NodeOfRun:
    """One node's share of the run's present attempt."""

    node: int
    name: str
    address: str
    state: str
    """preparing, ready, running, failing or ended. A node that only serves the others any more runs as they do."""
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
    """None while nothing says where it is."""
    exit_code: int | None
    signal: int | None


@dataclass(frozen=True)
class RanksOfRun:
    nodes: Sequence[NodeOfRun]
    ranks: Sequence[RankOfRun]


class Ranks:
    """The processes of a run and the nodes they are on, for people who look into it."""

    def __init__(self, parts: PartStore, logs: LogStore, access: Access) -> None:
        self._parts, self._logs, self._access = parts, logs, access

    def of(self, who: Principal, run_id: RunId) -> RanksOfRun:
        """Of the present attempt. Ranks that have said nothing yet are known once their node is ready."""
        run = self._access.run(who, Action.READ_RUN, run_id)
        parts = {part.node: part for part in self._parts.list(attempt_id(run.id, run.attempt))}
        names = run.nodes or (() if run.is_interactive else (run.target,))
        count = max(len(names), max(parts, default=-1) + 1)
        nodes = [_node(run, names, node, parts.get(node)) for node in range(count)]
        known = _ranks(list(parts.values()), kind_of(run.definition))
        for log in rank_logs(self._logs.sizes(run_id), run.definition):
            known.setdefault(log.rank, _seen_by_its_log(log, run, nodes))
        return RanksOfRun(nodes, [known[rank] for rank in sorted(known)])


def _seen_by_its_log(log: RankLog, run: RunRecord, nodes: Sequence[NodeOfRun]) -> RankOfRun:
    """A process whose node said nothing of it: of a run on one node, what is known of the run."""
    if len(nodes) != 1:
        return RankOfRun(log.rank, log.role, log.path, None, None, None)
    facts = run.exit_facts or {}
    exit_code, signal = None, None
    if facts.get("rank", 0) == log.rank:
        exit_code, signal = facts.get("exit_code"), facts.get("signal")
    elif run.status is RunStatus.COMPLETED and log.role == "worker":
        exit_code = 0
    return RankOfRun(log.rank, log.role, log.path, 0, exit_code, signal)


def _node(run: RunRecord, names: Sequence[str], node: int, part: Part | None) -> NodeOfRun:
    name = names[node] if node < len(names) else ""
    if part is None and len(names) == 1:
        return _single(run, name)
    told = part.told if part else NodeReport("preparing")
    return NodeOfRun(
        node=node,
        name=name,
        address=told.address,
        state=_STATES[part.state] if part else "preparing",
        outcome=told.outcome,
        exit_code=told.exit_code,
        signal=told.signal,
        oom=bool(told.oom),
        message=told.error.message if told.error else "",
    )


def _single(run: RunRecord, name: str) -> NodeOfRun:
    """A run on one node has no parts: what is known of it is known of the run."""
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


def _ranks(parts: Sequence[Part], kind: Kind) -> dict[int, RankOfRun]:
    """Their logs are told when a node is ready, how they ended when it has ended."""
    exits = _exits(parts, kind)
    return {
        one.rank: RankOfRun(one.rank, one.role, one.log, part.node, *exits.get(one.rank, (None, None)))
        for part in parts
        for one in part.told.ranks
    }


def _exits(parts: Sequence[Part], kind: Kind) -> dict[int, tuple[int | None, int | None]]:
    """Exit code and signal by rank. Of ranks that MPI's launcher started, what it says: all is well, or whose fault
    it is."""
    found: dict[int, tuple[int | None, int | None]] = {}
    for part in parts:
        told = part.told
        if kind is not Kind.MPI:
            found |= told.exits
        elif told.outcome == "completed":
            found |= {one.rank: (0, None) for one in told.ranks}
        elif told.error and told.rank is not None:
            found[told.rank] = (told.exit_code, told.signal)
    return found
