from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from runyard.errors import Conflict, InvalidArgument, NotFound
from runyard.model.metrics import MetricSummary
from runyard.model.names import check_text
from runyard.model.runs import RunEvent, RunId, RunQuery, RunRecord, RunStatus
from runyard.model.sweeps import SWEEP_TYPE
from runyard.ports.blobs import LogStore
from runyard.ports.clock import Clock
from runyard.ports.controller import RunMover
from runyard.ports.stores import MetricStore, RunStore
from runyard.services.children import canceled_with, close_open_children
from runyard.services.phases import Phase, phases_of
from runyard.services.sweeps.asked import check_no_results

TRIES_AGAINST_OTHER_WRITERS = 20
_DELETED_AT_ONCE = 200
_ENDS = frozenset(status.value for status in RunStatus if status.is_terminal)


@dataclass(frozen=True)
class RunHistory:
    events: Sequence[RunEvent]
    phases: Sequence[Phase]


class Runs:
    """Looking at runs, annotating, ending and removing them. Submitting is in `submission`."""

    def __init__(self, runs: RunStore, metrics: MetricStore, logs: LogStore, mover: RunMover, clock: Clock) -> None:
        self._runs, self._metrics, self._logs, self._mover, self._clock = runs, metrics, logs, mover, clock

    def get(self, run_id: RunId) -> RunRecord:
        return self._runs.get(run_id)

    def list(self, query: RunQuery) -> Sequence[RunRecord]:
        return self._runs.list(query)

    def history(self, run: RunRecord) -> RunHistory:
        events = self._runs.events(run.id)
        return RunHistory(events, phases_of(run, events, self._clock.now()))

    def log_paths(self, run_id: RunId) -> Sequence[str]:
        return list(self._logs.sizes(run_id))

    def summaries(self, run_ids: Sequence[RunId]) -> Mapping[RunId, Sequence[MetricSummary]]:
        return self._metrics.summaries(run_ids)

    def annotate(self, run_id: RunId, changes: Mapping[str, Any]) -> RunRecord:
        """Change tags, properties, display_name, description, error or warnings; see RunStore.update.

        InvalidArgument for a property that a sweep is to get from its children.
        """
        wanted = {
            name: checked(changes[name]) for name, checked in _ANNOTATIONS.items() if changes.get(name) is not None
        }
        if "properties" in wanted:
            check_no_results(self._runs.get(run_id).type, wanted["properties"])
        return self._runs.update(run_id, **wanted) if wanted else self._runs.get(run_id)

    def end(self, run_id: RunId, status: str, error: Mapping[str, Any] | None = None) -> RunRecord:
        """End a run as its script or its submitter says; quiet when it has that end already.

        A run that we started is stopped first: it shows that end once its processes are gone. Raises Conflict for a
        sweep, whose end is that of its children, unless it is to be canceled.
        """
        end = _end_status(status)
        for _ in range(TRIES_AGAINST_OTHER_WRITERS):
            seen = self._runs.get(run_id)
            if seen.status is end:
                return seen
            if seen.status.is_terminal:
                raise Conflict(f"Run {run_id} has ended as {seen.status} already and cannot be set to {end}.")
            _require_own_end(seen, end)
            if not seen.is_interactive:
                self._mover.cancel(run_id, end_as=end)
                return self._runs.get(run_id)
            try:
                ended = self._runs.move(seen, end, **({"error": error} if error else {}))
            except Conflict:
                if self._runs.get(run_id).version == seen.version:
                    raise
                continue
            close_open_children(self._runs, ended)
            return ended
        raise Conflict(f"Run {run_id} is being changed by others all the time.", hint="Try again.")

    def cancel(self, run_id: RunId) -> RunRecord:
        """Begin to stop it and the runs that came from it; quiet when it has ended. Those of a sweep go with it."""
        seen = self._runs.get(run_id)
        if seen.status.is_terminal:
            return seen
        self._cancel_one(seen)
        for below in canceled_with(self._runs, seen):
            self._cancel_one(below)
        return self._runs.get(run_id)

    def delete(self, run_id: RunId) -> None:
        """Remove a finished run and the runs that came from it, with their logs; quiet when gone."""
        try:
            run = self._runs.get(run_id)
        except NotFound:
            return
        self._require_no_trial(run)
        doomed = [run, *self._runs.descendants(run.id)]
        for one in doomed:
            if not one.status.is_terminal:
                whose = "" if one.id == run_id else f", which came from {run_id!r},"
                raise Conflict(f"Run {one.id!r}{whose} is still going on.", hint="Cancel it first.")
        doomed.reverse()
        for start in range(0, len(doomed), _DELETED_AT_ONCE):
            page = [one.id for one in doomed[start : start + _DELETED_AT_ONCE]]
            self._runs.delete(*page)
            for one_id in page:
                self._logs.delete(one_id)

    def delete_of_experiment(self, workspace: str, experiment: str) -> None:
        """Remove all runs of an experiment. Raises Conflict, and removes none, while one of them goes on."""
        for run in self._runs.unfinished():
            if (run.workspace, run.experiment) == (workspace, experiment):
                raise Conflict(f"Run {run.id!r} of {experiment!r} is still going on.", hint="Cancel it first.")
        while found := self._runs.list(RunQuery(workspace, experiment=experiment, include_children=True)):
            for run in found:
                self.delete(run.id)

    def _require_no_trial(self, run: RunRecord) -> None:
        """A sweep that goes on would miss its child, and make it once more."""
        try:
            parent = self._runs.get(run.parent_id) if run.parent_id else None
        except NotFound:
            return
        if parent is not None and parent.type == SWEEP_TYPE and not parent.status.is_terminal:
            raise Conflict(
                f"Run {run.id!r} is a child of the sweep {parent.id!r}, which is still going on.",
                hint="Wait for the end of the sweep, or cancel it, first.",
            )

    def _cancel_one(self, run: RunRecord) -> None:
        if run.status.is_terminal:
            return
        if run.is_interactive:
            with suppress(Conflict):  # its script ended it meanwhile
                self.end(run.id, RunStatus.CANCELED.value)
        else:
            self._mover.cancel(run.id)

    def has_unfinished(self) -> bool:
        """Whether a run that we started goes on; interactive ones end when their script says so, perhaps never."""
        return any(not run.is_interactive for run in self._runs.unfinished())


def _end_status(status: str) -> RunStatus:
    if status not in _ENDS:
        raise InvalidArgument(f"A run can be ended as Completed, Failed or Canceled, not as {status!r}.")
    return RunStatus(status)


def _require_own_end(run: RunRecord, end: RunStatus) -> None:
    if run.type == SWEEP_TYPE and end is not RunStatus.CANCELED:
        raise Conflict(
            f"Run {run.id} is a sweep: it ends when its children have, and cannot be set to {end}.",
            hint="Cancel it to end it now.",
        )


def _strings(value: Any) -> dict[str, str | None]:
    if not isinstance(value, dict):
        raise InvalidArgument("tags and properties are objects of strings.")
    for key, text in value.items():
        check_text(str(key), "tag or property")
        check_text(str(text), f"value of {key!r}")
    return {str(key): None if text is None else str(text) for key, text in value.items()}


def _text(value: Any) -> str:
    return check_text(str(value), "text")


def _error(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidArgument("error is an object with 'code' and 'message'.")
    return value


def _lines(value: Any) -> tuple[str, ...]:
    if not isinstance(value, (str, list)):
        raise InvalidArgument("warnings is a list of texts.")
    return tuple(_text(line) for line in ([value] if isinstance(value, str) else value))


_ANNOTATIONS: Mapping[str, Callable[[Any], Any]] = {
    "tags": _strings,
    "properties": _strings,
    "display_name": _text,
    "description": _text,
    "error": _error,
    "warnings": _lines,
}
