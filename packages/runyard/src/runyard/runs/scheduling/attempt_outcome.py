"""Decides, from the reports of all node tasks of an attempt, whether to start or stop, and how it ended and why.

Pure functions.
"""

import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from runyard.core.definitions.fields import JsonObject
from runyard.core.definitions.node_report import LastLines, NodeReport, ReportedError
from runyard.core.records.nodes import NodeTask, NodeTaskState
from runyard.core.records.runs import AttemptId

STOP_GRACE_SECONDS = 3.0
"""Grace period of the other tasks once one has failed, or all essential ones are done."""
_JUDGED = (NodeTaskState.FAILING, NodeTaskState.ENDED)
# "door" is the name in the wire format: the address of the node's launch server.
_ROSTER_FACTS = ("address", "ports", "door", "network", "is_essential")
# If a process is killed, its peers exit too, and their exits may be seen first.
_WINDOW = timedelta(seconds=3)
# Signals that frameworks and launchers send to a process whose peer is gone: not a sign that it failed first.
_AFTER_A_PEER = frozenset({signal.SIGABRT, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE})


@dataclass(frozen=True)
class AttemptDecision:
    roster: tuple[JsonObject, ...] | None = None
    """Addresses and ports by node; None until all are ready."""
    stop: str | None = None
    """Outcome with which running tasks have to end: "failed", "completed" or "canceled"; None: go on."""
    outcome: str | None = None
    """None until all tasks have ended."""
    cause: NodeTask | None = None
    """Task that made the attempt fail, as far as known."""


def decide_attempt(node_count: int, tasks: Sequence[NodeTask]) -> AttemptDecision:
    """Decide for an attempt. The order of the tasks does not matter."""
    judged = sorted((task for task in tasks if task.state in _JUDGED), key=lambda task: task.node)
    outcomes = {task.report.outcome for task in judged}
    have_all_ended = sum(task.state is NodeTaskState.ENDED for task in judged) == node_count
    roster = _roster(node_count, tasks)
    if "canceled" in outcomes:
        return _ending("canceled", have_all_ended, roster, _first_with_error(judged, "canceled"))
    if "failed" in outcomes:
        return _ending("failed", have_all_ended, roster, _cause(judged))
    if have_all_ended or (roster is not None and _essential_done(tasks)):
        return _ending("completed", have_all_ended, roster, None)
    return AttemptDecision(roster)


def lost_task(attempt_id: AttemptId, node: int, at: datetime, why: str) -> NodeTask:
    """Ended task of a lost node."""
    error = {"code": "ServiceError", "message": f"The node was lost: {why}" if why else "The node was lost."}
    facts: JsonObject = {"outcome": "failed", "lost": True, "why": why, "error": error}
    return NodeTask(attempt_id, node, NodeTaskState.ENDED, at, facts)


def _ending(
    outcome: str, is_over: bool, roster: tuple[JsonObject, ...] | None, cause: NodeTask | None
) -> AttemptDecision:
    return AttemptDecision(roster, None if is_over else outcome, outcome if is_over else None, cause)


def _roster(node_count: int, tasks: Sequence[NodeTask]) -> tuple[JsonObject, ...] | None:
    by_node = {task.node: task.facts for task in tasks if "address" in task.facts}
    if any(node not in by_node for node in range(node_count)):
        return None
    return tuple({name: by_node[node].get(name) for name in _ROSTER_FACTS} for node in range(node_count))


def _essential_done(tasks: Sequence[NodeTask]) -> bool:
    over = (NodeTaskState.DONE, NodeTaskState.ENDED)
    essential = [task for task in tasks if task.report.is_essential]
    return all(task.state in over for task in essential)


def _cause(judged: Sequence[NodeTask]) -> NodeTask | None:
    """Task to blame: a lost node, else one killed by force within _WINDOW of the first failure, else the first."""
    failures = sorted(_with_error(judged, "failed"), key=lambda task: (_failed_at(task), task.node))
    lost = next((task for task in failures if task.report.is_lost), None)
    if lost is not None or not failures:
        return lost
    close = (task for task in failures if _failed_at(task) - _failed_at(failures[0]) <= _WINDOW)
    return next(filter(_was_killed, close), failures[0])


def _first_with_error(judged: Sequence[NodeTask], outcome: str) -> NodeTask | None:
    return next(iter(_with_error(judged, outcome)), None)


def _with_error(judged: Sequence[NodeTask], outcome: str) -> list[NodeTask]:
    """Tasks with this outcome and an error of their own; a task stopped on request has none."""
    return [task for task in judged if task.report.outcome == outcome and task.report.error]


def _was_killed(task: NodeTask) -> bool:
    number = task.report.signal
    return bool(task.report.oom) or (number is not None and number not in _AFTER_A_PEER)


def _failed_at(task: NodeTask) -> datetime:
    """Time when the process ended; the report comes later, after the logs."""
    return task.report.failed_at or task.at


def end_report(decision: AttemptDecision, tasks: Sequence[NodeTask], names: Sequence[str]) -> NodeReport:
    """One `ended` report for the whole attempt, once all tasks have ended. `names`: those of its nodes."""
    report = NodeReport(
        "ended",
        outcome=decision.outcome or "",
        exit_code=0 if decision.outcome == "completed" else None,
        warnings=tuple(dict.fromkeys(text for task in tasks for text in task.report.warnings)),
        undelivered=sum(task.report.undelivered or 0 for task in tasks),
        outputs=_outputs(tasks),
    )
    if decision.cause is None:
        return report
    cause = _with_last_lines(decision.cause.report, (task.report for task in tasks))
    return replace(
        report,
        exit_code=cause.exit_code,
        signal=cause.signal,
        oom=cause.oom,
        phase=cause.phase,
        rank=cause.rank,
        tail=cause.tail or "",
        is_lost=cause.is_lost,
        error=_error(cause, _node(_node_of(decision.cause), tasks, names)),
    )


def single_node_end_report(report: NodeReport, name: str) -> NodeReport:
    """`ended` report of an attempt with several processes on one node, with the failed rank in its message."""
    if report.outcome != "failed" or report.error is None:
        return report
    report = _with_last_lines(report, [report])
    return replace(report, error=_error(report, f"node {name}"))


def stopping_message(cause: NodeTask, names: Sequence[str]) -> str:
    """Message of the run while the remaining tasks are being stopped."""
    where, report = f"node {_name(_node_of(cause), names)}", cause.report
    if report.is_lost:
        who = f"N{where[1:]} was lost"
    elif _has_ended_process(report) and report.rank is not None:
        who = f"Rank {report.rank} on {where} failed"
    else:
        who = f"N{where[1:]} failed"
    return f"{who}; stopping the others."


def _outputs(tasks: Sequence[NodeTask]) -> dict[str, int]:
    """Number of files of each output: the largest that a node reported."""
    seen: dict[str, int] = {}
    for task in tasks:
        for name, files in task.report.outputs.items():
            seen[name] = max(seen.get(name, 0), files)
    return seen


def _with_last_lines(cause: NodeReport, reports: Iterable[NodeReport]) -> NodeReport:
    """Add the last lines of the failed rank: the launcher knows the rank, but its node has the lines."""
    if cause.tail:
        return cause
    rank = str(cause.rank)
    kept = next((one.last_lines[rank] for one in reports if rank in one.last_lines), LastLines("", ""))
    error = cause.error
    if kept.raised:
        error = replace(error or ReportedError(), message=f"User program failed with {kept.raised}")
    return replace(cause, tail=kept.tail or cause.tail, error=error)


def _error(report: NodeReport, where: str) -> ReportedError:
    error = report.error or ReportedError()
    return replace(error, message=_message(report, error.message.rstrip("."), where))


def _message(report: NodeReport, text: str, where: str) -> str:
    if report.outcome == "canceled":
        return f"{text}."
    if report.why is not None:
        return ": ".join(filter(None, (f"N{where[1:]} was lost", report.why.rstrip(".")))) + "."
    log = f"its log is {report.log}" if report.log else ""
    end = "" if where in text and not _has_ended_process(report) else _end_of_rank(report, where)
    return "; ".join(filter(None, (text, end, log))) + "."


def _end_of_rank(report: NodeReport, where: str) -> str:
    if not _has_ended_process(report):
        return f"on {where}"
    who = "a process" if report.rank is None else f"rank {report.rank}"
    how = f"exited with code {report.exit_code}" if report.signal is None else f"was killed by signal {report.signal}"
    return f"{who} on {where} {how}"


def _has_ended_process(report: NodeReport) -> bool:
    """False if the failure came before the start of a process, or from outside."""
    return report.signal is not None or bool(report.exit_code)


def _node_of(cause: NodeTask) -> int:
    """Node of the failure: a launcher reports for ranks on other nodes."""
    return cause.node if cause.report.failed_node is None else cause.report.failed_node


def _name(node: int, names: Sequence[str]) -> str:
    return names[node] if 0 <= node < len(names) else str(node)


def _node(node: int, tasks: Sequence[NodeTask], names: Sequence[str]) -> str:
    address = next((task.report.address for task in tasks if task.node == node), "")
    return f"node {_name(node, names)} ({address})" if address else f"node {_name(node, names)}"
