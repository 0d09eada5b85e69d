from collections.abc import Mapping
from typing import Any, Protocol

from runyard.model.runs import AttemptId, RunId, RunStatus


class RunMover(Protocol):
    """Moves runs on. Every method returns promptly and may be called from any thread, and twice."""

    def wake(self, run_id: RunId | None = None) -> None:
        """Look at this run now, or at everything: it was submitted, or a cluster changed."""

    def cancel(self, run_id: RunId, *, end_as: RunStatus = RunStatus.CANCELED) -> None:
        """Begin to stop a run that is not interactive; quiet when it has ended.

        Once its processes are gone and what they wrote is stored it shows `end_as`; the first to ask decides.
        A sweep always shows Canceled, once all of its children have ended.
        """

    def report(self, attempt_id: AttemptId, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Take a supervisor's report in; answers {"cancel": bool}. Raises NotFound for an unknown attempt."""
