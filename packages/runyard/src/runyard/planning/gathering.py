"""What the nodes of one attempt have told, taken together: whether to start, to stop, and how it ended and why."""

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from runyard.core.definitions.fields import JsonObject
from runyard.model.parts import Part, PartState
from runyard.model.runs import AttemptId

STOP_GRACE_SECONDS = 3.0
"""How long the other parts may take once one has failed or nobody needs them any more."""
_JUDGED = (PartState.FAILING, PartState.ENDED)
_ROSTER_FACTS = ("address", "ports", "door", "network", "is_essential")
# A peer that is gone makes others exit, and a process that is killed may be seen later than those exits.
_WINDOW = timedelta(seconds=3)
# What frameworks and launchers do to a process when a peer is gone; no sign that this one began it.
_AFTER_A_PEER = frozenset({signal.SIGABRT, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE})


@dataclass(frozen=True)
class Decision:
    roster: tuple[JsonObject, ...] | None = None
    """What the nodes must know of one another, by node; None until all are ready."""
    stop: str | None = None
    """What parts that have not ended shall be told to end as: "failed", "completed", "canceled"; None: go on."""
    outcome: str | None = None
    """None until all parts have ended."""
    cause: Part | None = None
    """The part whose end made the attempt fail, as far as is known now."""


def decide(node_count: int, parts: Sequence[Part]) -> Decision:
    """Pure: the same parts give the same decision, in whatever order they came."""
    judged = sorted((part for part in parts if part.state in _JUDGED), key=lambda part: part.node)
    outcomes = {part.told.outcome for part in judged}
    have_all_ended = sum(part.state is PartState.ENDED for part in judged) == node_count
    roster = _roster(node_count, parts)
    if "canceled" in outcomes:
        return _ending("canceled", have_all_ended, roster, _first_with_error(judged, "canceled"))
    if "failed" in outcomes:
        return _ending("failed", have_all_ended, roster, _cause(judged))
    if have_all_ended or (roster is not None and _nobody_is_needed(parts)):
        return _ending("completed", have_all_ended, roster, None)
    return Decision(roster)


def lost_part(attempt_id: AttemptId, node: int, at: datetime, why: str) -> Part:
    """A part whose node is gone, and what lay there with it."""
    error = {"code": "ServiceError", "message": f"The node was lost: {why}" if why else "The node was lost."}
    facts: JsonObject = {"outcome": "failed", "lost": True, "why": why, "error": error}
    return Part(attempt_id, node, PartState.ENDED, at, facts)


def _ending(outcome: str, is_over: bool, roster: tuple[JsonObject, ...] | None, cause: Part | None) -> Decision:
    return Decision(roster, None if is_over else outcome, outcome if is_over else None, cause)


def _roster(node_count: int, parts: Sequence[Part]) -> tuple[JsonObject, ...] | None:
    by_node = {part.node: part.facts for part in parts if "address" in part.facts}
    if any(node not in by_node for node in range(node_count)):
        return None
    return tuple({name: by_node[node].get(name) for name in _ROSTER_FACTS} for node in range(node_count))


def _nobody_is_needed(parts: Sequence[Part]) -> bool:
    over = (PartState.DONE, PartState.ENDED)
    essential = [part for part in parts if part.told.is_essential]
    return all(part.state in over for part in essential)


def _cause(judged: Sequence[Part]) -> Part | None:
    """A lost node first, since nothing else ends so; else the first failure, unless a death by force within the
    window explains it better."""
    failures = sorted(_with_error(judged, "failed"), key=lambda part: (_failed_at(part), part.node))
    lost = next((part for part in failures if part.told.is_lost), None)
    if lost is not None or not failures:
        return lost
    close = (part for part in failures if _failed_at(part) - _failed_at(failures[0]) <= _WINDOW)
    return next(filter(_died_by_force, close), failures[0])


def _first_with_error(judged: Sequence[Part], outcome: str) -> Part | None:
    return next(iter(_with_error(judged, outcome)), None)


def _with_error(judged: Sequence[Part], outcome: str) -> list[Part]:
    """Those that ended so by themselves: a part that was told to stop ends as it was told, without an error."""
    return [part for part in judged if part.told.outcome == outcome and part.told.error]


def _died_by_force(part: Part) -> bool:
    number = part.told.signal
    return bool(part.told.oom) or (number is not None and number not in _AFTER_A_PEER)


def _failed_at(part: Part) -> datetime:
    """When its process ended; the report comes later, after the logs."""
    return part.told.failed_at or part.at
