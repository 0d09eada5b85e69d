"""A run kind of its own package: tries a script again and again, each time in a child run, until one completes."""

from collections.abc import Mapping
from typing import Any

from runyard.core.errors import InvalidArgument
from runyard.core.principal import Principal
from runyard.core.records.runs import RunId, RunRecord, RunStatus
from runyard.runs.children import child_record, children_of
from runyard.runs.kinds.kind import ParentKind

MOST_TRIES_TAG = "most_tries"


class RetryKind(ParentKind):
    name = "retry"
    type = "toy.retry"
    title = "retry"
    results = ("tries",)

    def check(self, who: Principal, workspace: str, submission: Any) -> None:
        super().check(who, workspace, submission)
        most_tries(submission.tags)

    def advance(self, run: RunRecord) -> None:
        """Look at the children that are stored, and do what follows: a service that was killed goes on here."""
        runs, children = self.tools.runs, children_of(self.tools.runs, run)  # the newest comes first
        if run.status is RunStatus.NOT_STARTED:
            run = runs.move(run, RunStatus.RUNNING, started_at=self.tools.clock.now())
        going_on = [child for child in children if not child.status.is_terminal]
        if run.status is RunStatus.CANCEL_REQUESTED:
            for child in going_on:
                self.tools.controller.cancel(child.id)
        if going_on:
            return
        tries = {"properties": {"tries": str(len(children))}}
        if run.status is RunStatus.CANCEL_REQUESTED:
            runs.move(run, RunStatus.CANCELED, **tries)
        elif children and children[0].status is RunStatus.COMPLETED:
            runs.move(run, RunStatus.COMPLETED, **tries)
        elif len(children) >= most_tries(run.tags):
            message = f"The script failed {len(children)} times, the last time in {children[0].id}."
            runs.move(run, RunStatus.FAILED, error={"error": {"code": "UserError", "message": message}}, **tries)
        else:
            self._try_again(run, RunId(f"{run.id}_{len(children) + 1}"))

    def _try_again(self, run: RunRecord, child_id: RunId) -> None:
        made = self.tools.runs.create(child_record(run, child_id, self.tools.clock.now()))
        self.tools.inputs.record(made)
        self.tools.controller.wake(made.id)


def most_tries(tags: Mapping[str, str]) -> int:
    given = tags.get(MOST_TRIES_TAG, "3")
    if not (given.isascii() and given.isdecimal() and 1 <= int(given) <= 100):
        raise InvalidArgument(f"The tag {MOST_TRIES_TAG!r} must be a number from 1 to 100, got {given[:80]!r}.")
    return int(given)
