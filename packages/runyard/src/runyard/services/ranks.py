from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runyard.model.parts import Part, PartState
from runyard.model.runs import RunId, RunRecord, RunStatus, attempt_id
from runyard.planning.distribution import Kind, kind_of
from runyard.ports.blobs import LogStore
from runyard.ports.stores import PartStore, RunStore
from runyard.services.rank_logs import RankLog, rank_logs

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

    def __init__(self, runs: RunStore, parts: PartStore, logs: LogStore) -> None:
        self._runs, self._parts, self._logs = runs, parts, logs

    def of(self, run_id: RunId) -> RanksOfRun:
        """Of the present attempt. Ranks that have said nothing yet are known once their node is ready."""
        run = self._runs.get(run_id)
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
    facts: Mapping[str, Any] = part.facts if part else {}
    return NodeOfRun(
        node=node,
        name=name,
        address=str(facts.get("address") or ""),
        state=_STATES[part.state] if part else "preparing",
        outcome=str(facts.get("outcome") or ""),
        exit_code=facts.get("exit_code"),
        signal=facts.get("signal"),
        oom=bool(facts.get("oom")),
        message=str((facts.get("error") or {}).get("message") or ""),
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
    told = [(part.node, *rank) for part in parts for rank in part.facts.get("ranks") or ()]
    return {rank: RankOfRun(rank, role, log, node, *exits.get(rank, (None, None))) for node, rank, role, log in told}


def _exits(parts: Sequence[Part], kind: Kind) -> dict[int, tuple[int | None, int | None]]:
    """Exit code and signal by rank. Of ranks that MPI's launcher started, what it says: all is well, or whose fault
    it is."""
    found: dict[int, tuple[int | None, int | None]] = {}
    for part in parts:
        facts = part.facts
        if kind is not Kind.MPI:
            found |= {int(rank): (code, signal) for rank, (code, signal) in (facts.get("exits") or {}).items()}
        elif facts.get("outcome") == "completed":
            found |= {rank: (0, None) for rank, _, _ in facts.get("ranks") or ()}
        elif facts.get("error") and facts.get("rank") is not None:
            found[facts["rank"]] = (facts.get("exit_code"), facts.get("signal"))
    return found
