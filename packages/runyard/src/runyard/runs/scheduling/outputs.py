from dataclasses import replace
from typing import Protocol

from runyard.core.definitions.report import NodeReport, ReportedError
from runyard.core.principal import SERVICE, Principal
from runyard.errors import RunyardError
from runyard.model.runs import AttemptId, RunRecord


class CompletesOutputs(Protocol):
    def complete(self, who: Principal, attempt_id: AttemptId, name: str, *, files: int, registers: bool) -> object:
        """Save the output of a run as a dataset, registered if asked for. Safe to repeat. Raises RunyardError."""


class GangOutputs:
    """Saves the outputs of a run on several nodes as datasets, once all nodes have ended."""

    def __init__(self, outputs: CompletesOutputs | None) -> None:
        """With None nothing is saved."""
        self._outputs = outputs

    def completed(self, run: RunRecord, end: NodeReport) -> NodeReport:
        """Save the outputs; returns `end`, changed to a failure if one could not be saved."""
        if self._outputs is None or end.outcome == "canceled":
            return end
        ended_well = end.outcome == "completed"
        for name, files in end.outputs.items():
            try:
                self._outputs.complete(SERVICE, AttemptId(run.ticket), name, files=files, registers=ended_well)
            except RunyardError as e:
                end = _with_failure(end, f"Output {name!r} was uploaded, but could not be saved as a dataset. {e}")
        return end


def _with_failure(end: NodeReport, message: str) -> NodeReport:
    known = end.error or ReportedError("ServiceError")
    text = f"{known.message.rstrip('.')}. {message}" if end.error else message
    return replace(end, outcome="failed", error=replace(known, message=text))
