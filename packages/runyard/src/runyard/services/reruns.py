from collections.abc import Mapping
from typing import Any

from runyard.errors import InvalidArgument
from runyard.model.runs import RunId, RunRecord
from runyard.ports.stores import FileStore, RunStore
from runyard.services.definition import OUTPUTS_OF
from runyard.services.submission import SNAPSHOT_PROPERTY, Submission, Submissions
from runyard.services.sweeps.asked import RESULT_PROPERTIES

RERUN_PROPERTY = "runyard.rerun_of"


class Reruns:
    """Runs made again: the same code, definition and data, in an environment of the very same packages."""

    def __init__(self, runs: RunStore, files: FileStore, submissions: Submissions) -> None:
        self._runs, self._files, self._submissions = runs, files, submissions

    def rerun(self, run_id: RunId, new_id: str, *, experiment: str = "", display_name: str = "") -> RunRecord:
        """Idempotent by `new_id`. Raises InvalidArgument for a run that we did not start, and what submitting does."""
        first = self._runs.get(run_id)
        if first.is_interactive or not (first.definition.get("script") or first.definition.get("command")):
            raise InvalidArgument(
                f"Run {run_id} was not started by Runyard: there is no script of it that could be started again.",
                hint="Rerun one that was submitted.",
            )
        snapshot = self._files.get_snapshot(first.snapshot_id).entries if first.snapshot_id else None
        left_out = (SNAPSHOT_PROPERTY, *RESULT_PROPERTIES)
        properties = {name: value for name, value in first.properties.items() if name not in left_out}
        asked = Submission(
            run_id=new_id,
            definition=_definition(first),
            snapshot=snapshot,
            type=first.type,
            tags=first.tags,
            properties={**properties, RERUN_PROPERTY: first.id},
            display_name=display_name or first.display_name,
            allow_large=True,
            outputs_of=(first.definition.get("runyard") or {}).get(OUTPUTS_OF),
        )
        return self._submissions.submit(first.workspace, experiment or first.experiment, asked)


def _definition(first: RunRecord) -> Mapping[str, Any]:
    """A rerun of a rerun keeps the lock of the first: what it ran with is the same."""
    ours = {name: value for name, value in (first.definition.get("runyard") or {}).items() if name != OUTPUTS_OF}
    if first.environment_lock:
        ours["locked"] = {"run": first.id, "lock": first.environment_lock}
    return {**first.definition, "runyard": ours}
