import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runyard.core.errors import Conflict
from runyard.core.records.runs import RunId, RunRecord, RunStatus
from runyard.core.records.sweeps import SweepSpec
from runyard.runs.children import children_of
from runyard.runs.kinds.kind import KindTools
from runyard.runs.kinds.sweep.cancellation import TIME_OVER
from runyard.runs.kinds.sweep.checks import BEST_PROPERTY, SCORE_PROPERTY, STATUS_PROPERTY
from runyard.runs.kinds.sweep.live_sweep import LiveSweep
from runyard.runs.kinds.sweep.log import cause_text
from runyard.runs.kinds.sweep.progress import SweepProgress

_MOST_NAMED = 10
_MOST_TRIES = 20
_NUMBER = re.compile(r"\d[\d.e+-]*")
_SUCCEEDED = "Succeeded"


@dataclass(frozen=True)
class BestChild:
    run_id: RunId
    score: float


@dataclass(frozen=True)
class SweepOutcome:
    """All that the end of a sweep depends on. All children have ended."""

    metric: str
    children: Sequence[RunRecord]
    stopped: frozenset[RunId] = frozenset()
    """Children that a policy stopped."""
    best: BestChild | None = None
    logged: Mapping[str, int] = field(default_factory=dict)
    """Number of children that logged each metric; filled only if there is no best."""
    is_canceled: bool = False
    """The sweep itself was canceled."""
    left_out: int = 0
    """Trials that were not started because the time was over or the sweep was barred."""
    barred: str = ""
    """Why no further child could be created; empty otherwise."""
    cut_off: frozenset[RunId] = frozenset()
    """Children that were canceled because the time of the sweep was over."""
    minutes: int = 0
    """max_duration_minutes of the sweep."""


@dataclass(frozen=True)
class SweepEnd:
    status: RunStatus
    text: str
    """The end as a sentence."""
    error: Mapping[str, Any] | None
    warnings: tuple[str, ...]
    properties: Mapping[str, str]

    @property
    def lines(self) -> Sequence[str]:
        """Lines for the log of the sweep."""
        return [self.text, *([self.error["error"]["message"]] if self.error else ()), *self.warnings]


class SweepFinalizer:
    """Ends sweeps whose children have all ended."""

    def __init__(self, tools: KindTools) -> None:
        self._runs, self._trials, self._logs, self._clock = tools.runs, tools.trials, tools.logs, tools.clock

    def end_of(self, run: RunRecord, live: LiveSweep, progress: SweepProgress, *, is_time_over: bool) -> SweepEnd:
        """Work out how the sweep ends. The result is the same at each call."""
        spec, children = live.spec, children_of(self._runs, run)
        canceled = {child.id for child in children if child.status is RunStatus.CANCELED}
        is_canceled = run.status is RunStatus.CANCEL_REQUESTED
        best = self._best(run, spec)
        return end_of_sweep(
            SweepOutcome(
                metric=spec.metric,
                children=children,
                stopped=frozenset(canceled & {trial.child_id for trial in live.trials if trial.stop}),
                best=best,
                logged={} if best else self._trials.logged(run.id),
                is_canceled=is_canceled,
                left_out=live.left_out(progress) if (is_time_over or progress.barred) and not is_canceled else 0,
                barred=progress.barred,
                cut_off=frozenset(canceled & {child.id for child in children if TIME_OVER in child.warnings}),
                minutes=spec.max_duration_minutes,
            )
        )

    def store(self, run: RunRecord, end: SweepEnd) -> RunRecord:
        """Store the end. Raises Conflict if the status of the sweep has changed since `run`."""
        self._logs.seal(run.id)
        for _ in range(_MOST_TRIES):
            changes: dict[str, Any] = {
                "message": "",
                "warnings": tuple(text for text in end.warnings if text not in run.warnings),
                "properties": end.properties,
            }
            if end.error is not None:
                changes["error"] = {**end.error, "time": self._clock.now().isoformat().replace("+00:00", "Z")}
            try:
                return self._runs.move(run, end.status, **changes)
            except Conflict:
                now = self._runs.get(run.id)
                if now.status is not run.status:
                    raise
                run = now  # only tags or properties have changed
        raise Conflict(f"Run {run.id} is being changed by others all the time.")

    def _best(self, run: RunRecord, spec: SweepSpec) -> BestChild | None:
        for trial in self._trials.ranked([run.id], spec.metric, spec.goal, limit=1):
            return None if trial.best is None else BestChild(trial.run_id, trial.best)
        return None


def end_of_sweep(found: SweepOutcome) -> SweepEnd:
    counts = Counter(child.status for child in found.children)
    status, error = RunStatus.COMPLETED, None
    if found.is_canceled:
        status = RunStatus.CANCELED
    elif found.barred and found.left_out:
        status, error = RunStatus.FAILED, _barred(found, counts)
    elif counts[RunStatus.FAILED] and not counts[RunStatus.COMPLETED] and not found.stopped:
        status, error = RunStatus.FAILED, _error(_those(found, RunStatus.FAILED), len(found.children))
    warnings = tuple(_warnings(found, status, counts))
    return SweepEnd(status, _sentence(found, status, counts), error, warnings, _properties(found))


def _warnings(found: SweepOutcome, status: RunStatus, counts: Counter[RunStatus]) -> Iterator[str]:
    of = len(found.children)
    if found.cut_off or (found.left_out and not found.barred):
        yield _time_over(found)
    if counts[RunStatus.FAILED] and status is not RunStatus.FAILED:
        failed = _those(found, RunStatus.FAILED)
        yield f"{len(failed)} of {of} children failed: {_named(failed)}. {_commonest(failed).text}"
    by_others = [
        child
        for child in _those(found, RunStatus.CANCELED)
        if child.id not in found.stopped and child.id not in found.cut_off
    ]
    if by_others and not found.is_canceled:
        yield f"{len(by_others)} of {of} children were canceled, each by itself: {_named(by_others)}."
    if status is RunStatus.COMPLETED and found.best is None and (counts[RunStatus.COMPLETED] or found.stopped):
        yield _never_logged(found)


def _sentence(found: SweepOutcome, status: RunStatus, counts: Counter[RunStatus]) -> str:
    ends = (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELED)
    counted = ", ".join(f"{counts[end]} {end}" for end in ends)
    stopped = f" ({len(found.stopped)} of them stopped by the policy)" if found.stopped else ""
    best = f" Best {found.metric!r}: {found.best.score!r} of {found.best.run_id}." if found.best else ""
    return f"The sweep is {status}. Of {len(found.children)} children: {counted}{stopped}.{best}"


def _properties(found: SweepOutcome) -> dict[str, str]:
    if found.best is None:
        return {STATUS_PROPERTY: f"No child logged a number of the primary metric {found.metric!r}."}
    return {
        SCORE_PROPERTY: repr(found.best.score),
        BEST_PROPERTY: found.best.run_id,
        STATUS_PROPERTY: _SUCCEEDED,
    }


def _time_over(found: SweepOutcome) -> str:
    cut, left = len(found.cut_off), found.left_out
    return (
        f"max_duration_minutes ({found.minutes}) was over: {cut} {_children(cut)} canceled that went on, and {left} "
        f"{'trial was' if left == 1 else 'trials were'} not begun."
    )


def _never_logged(found: SweepOutcome) -> str:
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


def _barred(found: SweepOutcome, counts: Counter[RunStatus]) -> dict[str, Any]:
    failed, children, left = counts[RunStatus.FAILED], len(found.children), found.left_out
    trials = "trial was" if left == 1 else "trials were"
    begun = f", and {failed} of {children} {_children(children)} failed" if failed else ""
    message = f"{left} {trials} not begun{begun}. {found.barred}"
    facts = {"failed": str(failed), "children": str(children)}
    return {"error": {"code": "UserError", "message": message, "messageParameters": facts, "details": []}}


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
    """Most frequent cause. Causes that differ only in numbers count as one: values differ between trials."""
    alike: defaultdict[tuple[str, str], list[RunRecord]] = defaultdict(list)
    for child in failed:
        error = _error_of(child)
        alike[str(error.get("code")), _NUMBER.sub("#", _cause(error))].append(child)
    most = max(alike.values(), key=len)
    error, first = _error_of(most[0]), most[0]
    share = f"The commonest cause, of {len(most)}" if len(alike) > 1 else "The cause"
    return _Cause(str(error.get("code") or "UserError"), f"{share} (as of {first.id}): {_cause(error)}", first.id)


def _error_of(child: RunRecord) -> Mapping[str, Any]:
    found = (child.error or {}).get("error")
    return found if isinstance(found, Mapping) else {}


def _cause(error: Mapping[str, Any]) -> str:
    return cause_text(error.get("message")) or "it is not known"


def _named(children: Sequence[RunRecord]) -> str:
    return ", ".join(child.id for child in children[:_MOST_NAMED]) + _and_more(len(children))


def _and_more(count: int) -> str:
    return f" and {count - _MOST_NAMED} more" if count > _MOST_NAMED else ""


def _children(count: int) -> str:
    return "child" if count == 1 else "children"


def _those(found: SweepOutcome, status: RunStatus) -> list[RunRecord]:
    """Children with that status, in order of their numbers."""
    return sorted((child for child in found.children if child.status is status), key=lambda child: child.sequence)
