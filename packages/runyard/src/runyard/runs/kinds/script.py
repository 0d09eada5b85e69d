from runyard.core.records.runs import RunRecord, RunStatus
from runyard.runs.kinds.kind import RunKind


class ScriptKind(RunKind):
    """A script or a command that Runyard starts. Runs whose type no kind has are of this kind."""

    name = "script"
    title = "script run"
    has_process = True

    def advance(self, run: RunRecord) -> RunRecord | None:
        return self.tools.controller.start_next(run)

    def cancel(self, run: RunRecord, *, end_as: RunStatus) -> None:
        self.tools.controller.cancel_attempt(run, end_as=end_as)
