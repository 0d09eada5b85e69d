"""Decides, from the reports of all node tasks of an attempt, whether to start or stop, and how it ended and why.

Pure functions."""

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from runyard.core.definitions.fields import JsonObject
from runyard.model.parts import Part, PartState
from runyard.model.runs import AttemptId

STOP_GRACE_SECONDS = 3.0
"""Grace period of the other tasks once one has failed, or all essential ones are done."""
_JUDGED = (PartState.FAILING, PartState.ENDED)
_ROSTER_FACTS = ("address", "ports", "door", "network", "is_essential")
# If a process is killed, its peers exit too, and their exits may be seen first.
_WINDOW = timedelta(seconds=3)
# Signals that frameworks and launchers send to a process whose peer is gone: not a sign that it failed first.
_AFTER_A_PEER = frozenset({signal.SIGABRT, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE})


@dataclass(frozen=True)
class Decision:
    roster: tuple[JsonObject, ...] | None = None
    """Addresses and ports by node; None until all are ready."""
    stop: str | None = None
    """Outcome with which running tasks have to end: "failed", "completed" or "canceled"; None: go on."""
    outcome: str | None = None
    """None until all tasks have ended."""
    cause: Part | None = None
    """Task that made the attempt fail, as far as known."""


def decide(node_count: int, tasks: Sequence[Part]) -> Decision:
    """Decide for an attempt. The order of the tasks does not matter."""
    judged = sorted((task for task in tasks if task.state in _JUDGED), key=lambda task: task.node)
    outcomes = {task.report.outcome for task in judged}
    have_all_ended = sum(task.state is PartState.ENDED for task in judged) == node_count
    roster = _roster(node_count, tasks)
    if "canceled" in outcomes:
        return _ending("canceled", have_all_ended, roster, _first_with_error(judged, "canceled"))
    if "failed" in outcomes:
        return _ending("failed", have_all_ended, roster, _cause(judged))
    if have_all_ended or (roster is not None and _essential_done(tasks)):
        return _ending("completed", have_all_ended, roster, None)
    return Decision(roster)


def lost_part(attempt_id: AttemptId, node: int, at: datetime, why: str) -> Part:
    """Ended task of a lost node."""
    error = {"code": "ServiceError", "message": f"The node was lost: {why}" if why else "The node was lost."}
    facts: JsonObject = {"outcome": "failed", "lost": True, "why": why, "error": error}
    return Part(attempt_id, node, PartState.ENDED, at, facts)


def _ending(outcome: str, is_over: bool, roster: tuple[JsonObject, ...] | None, cause: Part | None) -> Decision:
    return Decision(roster, None if is_over else outcome, outcome if is_over else None, cause)


def _roster(node_count: int, tasks: Sequence[Part]) -> tuple[JsonObject, ...] | None:
    by_node = {task.node: task.facts for task in tasks if "address" in task.facts}
    if any(node not in by_node for node in range(node_count)):
        return None
    return tuple({name: by_node[node].get(name) for name in _ROSTER_FACTS} for node in range(node_count))


def _essential_done(tasks: Sequence[Part]) -> bool:
    over = (PartState.DONE, PartState.ENDED)
    essential = [task for task in tasks if task.report.is_essential]
    return all(task.state in over for task in essential)


def _cause(judged: Sequence[Part]) -> Part | None:
    """Task to blame: a lost node, else one killed by force within _WINDOW of the first failure, else the first."""
    failures = sorted(_with_error(judged, "failed"), key=lambda task: (_failed_at(task), task.node))
    lost = next((task for task in failures if task.report.is_lost), None)
    if lost is not None or not failures:
        return lost
    close = (task for task in failures if _failed_at(task) - _failed_at(failures[0]) <= _WINDOW)
    return next(filter(_was_killed, close), failures[0])


def _first_with_error(judged: Sequence[Part], outcome: str) -> Part | None:
    return next(iter(_with_error(judged, outcome)), None)


def _with_error(judged: Sequence[Part], outcome: str) -> list[Part]:
    """Tasks that ended so by themselves: one that was told to stop has no error."""
    return [task for task in judged if task.report.outcome == outcome and task.report.error]


def _was_killed(task: Part) -> bool:
    number = task.report.signal
    return bool(task.report.oom) or (number is not None and number not in _AFTER_A_PEER)


def _failed_at(task: Part) -> datetime:
    """Time when the process ended; the report comes later, after the logs."""
    return task.report.failed_at or task.at
