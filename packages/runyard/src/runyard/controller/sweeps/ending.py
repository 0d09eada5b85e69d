"""How a sweep ends, from how its children have."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runyard.model.runs import RunId, RunRecord, RunStatus
from runyard.services.sweeps.asked import BEST_PROPERTY, SCORE_PROPERTY, STATUS_PROPERTY

_MOST_NAMED = 10
_MOST_SAID = 500
_NUMBER = re.compile(r"\d[\d.e+-]*")
_SUCCEEDED = "Succeeded"


@dataclass(frozen=True)
class Best:
    run_id: RunId
    score: float


@dataclass(frozen=True)
class Outcome:
    """All that a sweep's end depends on. Its children have all ended."""

    metric: str
    children: Sequence[RunRecord]
    stopped: frozenset[RunId] = frozenset()
    """Those that a policy had stopped."""
    best: Best | None = None
    logged: Mapping[str, int] = field(default_factory=dict)
    """In how many children each metric was logged; asked only where there is no best."""
    wished: RunStatus | None = None
    """The end that somebody asked for; the sweep was stopped for it."""
    left_out: int = 0
    """How many trials were not made because the sweep's time was over."""
    cut_off: frozenset[RunId] = frozenset()
    """The children that were canceled because the sweep's time was over."""
    minutes: int = 0
    """How long the sweep could take."""


@dataclass(frozen=True)
class End:
    status: RunStatus
    text: str
    """The end as a sentence."""
    error: Mapping[str, Any] | None
    warnings: tuple[str, ...]
    properties: Mapping[str, str]


def end_of_sweep(found: Outcome) -> End:
    counts = Counter(child.status for child in found.children)
    failed = [child for child in _by_number(found.children) if child.status is RunStatus.FAILED]
    all_failed = bool(failed) and not counts[RunStatus.COMPLETED] and not found.stopped
    status = found.wished or (RunStatus.FAILED if all_failed else RunStatus.COMPLETED)
    error = _error(failed, len(found.children)) if all_failed and not found.wished else None
    warnings = [_time_over(found)] if found.left_out or found.cut_off else []
    if failed and error is None:
        warnings.append(_some_failed(failed, len(found.children)))
    if found.best is None and found.children and not all_failed and not found.wished:
        warnings.append(_never_logged(found))
    return End(status, _sentence(found, status, counts), error, tuple(warnings), _properties(found))


def _sentence(found: Outcome, status: RunStatus, counts: Counter[RunStatus]) -> str:
    ends = (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELED)
    told = ", ".join(f"{counts[end]} {end}" for end in ends)
    stopped = f" ({len(found.stopped)} of them stopped by the policy)" if found.stopped else ""
    best = f" Best {found.metric!r}: {found.best.score!r} of {found.best.run_id}." if found.best else ""
    return f"The sweep is {status}. Of {len(found.children)} children: {told}{stopped}.{best}"


def _properties(found: Outcome) -> dict[str, str]:
    if found.best is None:
        return {STATUS_PROPERTY: f"No child logged a number of the primary metric {found.metric!r}."}
    return {
        SCORE_PROPERTY: repr(found.best.score),
        BEST_PROPERTY: found.best.run_id,
        STATUS_PROPERTY: _SUCCEEDED,
    }


def _time_over(found: Outcome) -> str:
    cut, left = len(found.cut_off), found.left_out
    return (
        f"max_duration_minutes ({found.minutes}) was over: {cut} {_children(cut)} canceled that went on, and {left} "
        f"{'trial was' if left == 1 else 'trials were'} not begun."
    )


def _some_failed(failed: Sequence[RunRecord], of: int) -> str:
    return f"{len(failed)} of {of} children failed: {_named(failed)}. {_commonest(failed).text}"


def _never_logged(found: Outcome) -> str:
    metric, times = found.metric, found.logged.get(found.metric, 0)
    if times:
        return (
            f"The primary metric {metric!r} was logged in {times} {_children(times)}, but "
            "never as a finite number, so there is no best one. Log it as an int or a float that is not NaN."
        )
    names = sorted(found.logged, key=lambda name: (-found.logged[name], name))
    shown = ", ".join(f"{name!r} (in {found.logged[name]})" for name in names[:_MOST_NAMED])
    did = f"What they did log: {shown}{_and_more(len(names))}" if names else "They logged no metric at all"
    return (
        f"No child logged the primary metric {metric!r}, so there is no best one. {did}. "
        "Give primary_metric_name the name that the script logs."
    )


def _error(failed: Sequence[RunRecord], of: int) -> dict[str, Any]:
    cause = _commonest(failed)
    count = f"All {of} children failed" if len(failed) == of > 1 else f"{len(failed)} of {of} {_children(of)} failed"
    return {
        "error": {
            "code": cause.code,
            "message": f"{count}. {cause.text}",
            "messageParameters": {"failed": str(len(failed)), "children": str(of), "example": cause.example},
            "details": [],
        }
    }


@dataclass(frozen=True)
class _Cause:
    code: str
    text: str
    example: RunId


def _commonest(failed: Sequence[RunRecord]) -> _Cause:
    """Causes that differ in numbers alone are one: the values differ from trial to trial."""
    alike: defaultdict[tuple[str, str], list[RunRecord]] = defaultdict(list)
    for child in failed:
        error = _error_of(child)
        alike[str(error.get("code")), _NUMBER.sub("#", _first_line(error))].append(child)
    most = max(alike.values(), key=len)
    error, first = _error_of(most[0]), most[0]
    share = f"The commonest cause, of {len(most)}" if len(alike) > 1 else "The cause"
    return _Cause(str(error.get("code") or "UserError"), f"{share} (as of {first.id}): {_first_line(error)}", first.id)


def _error_of(child: RunRecord) -> Mapping[str, Any]:
    found = (child.error or {}).get("error")
    return found if isinstance(found, Mapping) else {}


def _first_line(error: Mapping[str, Any]) -> str:
    lines = str(error.get("message") or "").strip().splitlines()
    return lines[0][:_MOST_SAID] if lines else "it is not known"


def _named(children: Sequence[RunRecord]) -> str:
    return ", ".join(child.id for child in children[:_MOST_NAMED]) + _and_more(len(children))


def _and_more(count: int) -> str:
    return f" and {count - _MOST_NAMED} more" if count > _MOST_NAMED else ""


def _children(count: int) -> str:
    return "child" if count == 1 else "children"


def _by_number(children: Sequence[RunRecord]) -> list[RunRecord]:
    return sorted(children, key=lambda child: child.sequence)
