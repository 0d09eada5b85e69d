from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from runyard.access.authorization import Access
from runyard.core.definitions.run import RunError
from runyard.core.errors import Conflict, InvalidArgument, NotFound
from runyard.core.names import check_text
from runyard.core.policy import Action
from runyard.core.ports.blobs import LogStore
from runyard.core.ports.clock import Clock
from runyard.core.ports.stores import MetricStore, RunStore
from runyard.core.principal import Principal
from runyard.core.records.metrics import MetricSummary
from runyard.core.records.runs import RunEvent, RunId, RunQuery, RunRecord, RunStatus
from runyard.runs.children import close_interactive_children, descendants_to_cancel
from runyard.runs.scheduling.controller import RunController

TRIES_AGAINST_OTHER_WRITERS = 20
_DELETE_PAGE = 200
_ENDS = frozenset(status.value for status in RunStatus if status.is_terminal)


@dataclass(frozen=True)
class Phase:
    name: str
    seconds: float
    started_at: datetime


@dataclass(frozen=True)
class RunHistory:
    events: Sequence[RunEvent]
    phases: Sequence[Phase]


@dataclass(frozen=True)
class RunChanges:
    """Changes to a run. None leaves a field unchanged. Tags and properties are merged; a tag set to None is removed."""

    tags: Mapping[str, str | None] = field(default_factory=dict)
    properties: Mapping[str, str | None] = field(default_factory=dict)
    display_name: str | None = None
    description: str | None = None
    error: RunError | None = None
    warnings: Sequence[str] | None = None

    def checked(self) -> dict[str, Any]:
        """Arguments of RunStore.update. Raises InvalidArgument."""
        given = {
            "tags": _checked_texts(self.tags) or None,
            "properties": _checked_texts(self.properties) or None,
            "display_name": self.display_name and check_text(self.display_name, "display_name"),
            "description": self.description and check_text(self.description, "description"),
            "error": self.error and self.error.raw,
            "warnings": None if self.warnings is None else tuple(check_text(one, "warnings") for one in self.warnings),
        }
        return {name: value for name, value in given.items() if value is not None}


class Runs:
    """Reads, annotates, ends, cancels and deletes runs."""

    def __init__(
        self,
        runs: RunStore,
        metrics: MetricStore,
        logs: LogStore,
        controller: RunController,
        clock: Clock,
        access: Access,
    ) -> None:
        self._runs, self._metrics, self._logs, self._clock = runs, metrics, logs, clock
        self._controller, self._kinds, self._access = controller, controller.kinds, access

    def get(self, who: Principal, run_id: RunId) -> RunRecord:
        return self._access.run(who, Action.READ_RUN, run_id)

    def list(self, who: Principal, query: RunQuery) -> Sequence[RunRecord]:
        self._access.workspace(who, Action.READ_RUN, query.workspace)
        return self._runs.list(query)

    def history(self, who: Principal, run: RunRecord) -> RunHistory:
        self._access.record(who, Action.READ_RUN, run)
        events = self._runs.events(run.id)
        return RunHistory(events, phases_of(run, events, self._clock.now()))

    def log_paths(self, who: Principal, run: RunRecord) -> Sequence[str]:
        self._access.record(who, Action.READ_RUN, run)
        return list(self._logs.sizes(run.id))

    def summaries(self, who: Principal, runs: Sequence[RunRecord]) -> Mapping[RunId, Sequence[MetricSummary]]:
        self._access.right(who, Action.READ_RUN)
        for workspace in {run.workspace for run in runs}:
            self._access.workspace(who, Action.READ_RUN, workspace)
        return self._metrics.summaries([run.id for run in runs])

    def annotate(self, who: Principal, run_id: RunId, changes: RunChanges) -> RunRecord:
        """Change a run. Raises InvalidArgument for a property that its kind sets, and what RunStore.update raises."""
        self._access.reach(who, Action.WRITE_RUN, run_id)
        wanted = changes.checked()
        if changes.properties:
            self._kinds.of(self._runs.get(run_id)).check_properties(changes.properties)
        return self._runs.update(run_id, **wanted) if wanted else self._runs.get(run_id)

    def end(self, who: Principal, run_id: RunId, status: str) -> RunRecord:
        """End a run with the given status; does nothing if it has that status already.

        A run with processes is stopped first and shows the status once they are gone. Raises Conflict if the run has
        another end, or its kind does not allow this one.
        """
        self._access.reach(who, Action.WRITE_RUN, run_id)
        end = _end_status(status)
        for _ in range(TRIES_AGAINST_OTHER_WRITERS):
            seen = self._runs.get(run_id)
            if seen.status is end:
                return seen
            if seen.status.is_terminal:
                raise Conflict(f"Run {run_id} has ended as {seen.status} already and cannot be set to {end}.")
            self._kinds.of(seen).check_end(seen, end)
            if not seen.is_interactive:
                self._controller.cancel(run_id, end_as=end)
                return self._runs.get(run_id)
            try:
                ended = self._runs.move(seen, end)
            except Conflict:
                if self._runs.get(run_id).version == seen.version:
                    raise
                continue
            close_interactive_children(self._runs, ended)
            return ended
        raise Conflict(f"Run {run_id} is being changed by others all the time.", hint="Try again.")

    def cancel(self, who: Principal, run_id: RunId) -> RunRecord:
        """Begin to cancel the run and its descendants; does nothing if it has ended."""
        seen = self._access.run(who, Action.CANCEL_RUN, run_id)
        if seen.status.is_terminal:
            return seen
        self._controller.cancel(run_id)
        for below in descendants_to_cancel(self._runs, self._controller, seen):
            if not below.status.is_terminal:
                self._controller.cancel(below.id)
        return self._runs.get(run_id)

    def delete(self, who: Principal, run_id: RunId) -> None:
        """Delete a finished run, its descendants and their logs; does nothing if it is gone. Raises Conflict."""
        try:
            run = self._access.run(who, Action.DELETE_RUN, run_id)
        except NotFound:
            return
        found = self._kinds.of_parent(run)
        if found is not None:
            parent, kind = found
            kind.check_child_deletion(parent, run)
        to_delete = [run, *self._runs.descendants(run.id)]
        for one in to_delete:
            if not one.status.is_terminal:
                whose = "" if one.id == run_id else f", which came from {run_id!r},"
                raise Conflict(f"Run {one.id!r}{whose} is still going on.", hint="Cancel it first.")
        to_delete.reverse()
        for start in range(0, len(to_delete), _DELETE_PAGE):
            page = [one.id for one in to_delete[start : start + _DELETE_PAGE]]
            self._runs.delete(*page)
            for one_id in page:
                self._logs.delete(one_id)

    def delete_of_experiment(self, who: Principal, workspace: str, experiment: str) -> None:
        """Delete all runs of an experiment. Raises Conflict, and deletes none, if one of them has not ended."""
        self._access.workspace(who, Action.DELETE_EXPERIMENT, workspace)
        for run in self._runs.unfinished():
            if (run.workspace, run.experiment) == (workspace, experiment):
                raise Conflict(f"Run {run.id!r} of {experiment!r} is still going on.", hint="Cancel it first.")
        while found := self._runs.list(RunQuery(workspace, experiment=experiment, include_children=True)):
            for run in found:
                self.delete(who, run.id)

    def has_unfinished(self) -> bool:
        """Whether a submitted run has not ended. Interactive runs do not count: some are never ended."""
        return any(not run.is_interactive for run in self._runs.unfinished())


def _end_status(status: str) -> RunStatus:
    if status not in _ENDS:
        raise InvalidArgument(f"A run can be ended as Completed, Failed or Canceled, not as {status!r}.")
    return RunStatus(status)


def _checked_texts(given: Mapping[str, str | None]) -> dict[str, str | None]:
    for key, text in given.items():
        check_text(key, "tag or property")
        check_text(str(text), f"value of {key!r}")
    return dict(given)


def phases_of(run: RunRecord, events: Sequence[RunEvent], now: datetime) -> list[Phase]:
    """Time spent in each status, in order; the present one until now, without terminal ones."""
    reached = [(event.at, event.text) for event in events if event.kind == "status"]
    if not reached:
        reached = [(run.created_at, run.status.value)]
    phases = []
    for (at, name), (next_at, _) in zip(reached, [*reached[1:], (now, "")], strict=True):
        if name not in _ENDS:
            phases.append(Phase(name, round(max(0.0, (next_at - at).total_seconds()), 3), at))
    return phases
