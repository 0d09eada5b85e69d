from collections.abc import Mapping
from typing import Any, Protocol

from runyard.errors import RunyardError
from runyard.model.runs import AttemptId, RunRecord

Report = Mapping[str, Any]


class CompletesOutputs(Protocol):
    def complete(self, attempt_id: AttemptId, name: str, *, files: int, registers: bool) -> object:
        """Save the output of a run as a dataset, registered if asked for. Safe to repeat. Raises RunyardError."""


class GangOutputs:
    """What several nodes wrote to datastores together, made datasets once all of them have ended."""

    def __init__(self, outputs: CompletesOutputs | None) -> None:
        """Without `outputs` nothing is saved."""
        self._outputs = outputs

    def completed(self, run: RunRecord, end: Report) -> Report:
        """The end of the attempt, which is a failure where an output could not be saved."""
        if self._outputs is None or end["outcome"] == "canceled":
            return end
        ended_well = end["outcome"] == "completed"
        for name, files in (end.get("outputs") or {}).items():
            try:
                self._outputs.complete(AttemptId(run.ticket), name, files=files, registers=ended_well)
            except RunyardError as e:
                end = _with_failure(end, f"Output {name!r} was uploaded, but could not be saved as a dataset. {e}")
        return end


def _with_failure(end: Report, message: str) -> Report:
    known = end.get("error")
    said = f"{known['message'].rstrip('.')}. {message}" if known else message
    return {**end, "outcome": "failed", "error": {**(known or {"code": "ServiceError"}), "message": said}}
