from runyard.access.authorization import Access
from runyard.core.definitions.run import RunDefinition
from runyard.core.errors import InvalidArgument
from runyard.core.policy import Action
from runyard.core.ports.stores import FileStore
from runyard.core.principal import Principal
from runyard.core.records.runs import RunId, RunRecord
from runyard.runs.kinds.registry import RunKinds
from runyard.runs.kinds.sweep.spec import sweep_in
from runyard.runs.submit import SNAPSHOT_PROPERTY, Submission, Submissions

RERUN_PROPERTY = "runyard.rerun_of"


class Reruns:
    """Submits runs again: same code, definition and data, same versions of all packages."""

    def __init__(self, files: FileStore, kinds: RunKinds, submissions: Submissions, access: Access) -> None:
        self._files, self._kinds, self._submissions, self._access = files, kinds, submissions, access

    def rerun(
        self, who: Principal, run_id: RunId, new_id: str, *, experiment: str = "", display_name: str = ""
    ) -> RunRecord:
        """Submit the run again as `new_id`; idempotent by that id.

        Raises InvalidArgument for an interactive run, and what `Submissions.submit` raises.
        """
        self._access.right(who, Action.SUBMIT_RUN)
        first = self._access.run(who, Action.READ_RUN, run_id)
        if first.is_interactive or not (first.definition.script or first.definition.command):
            raise InvalidArgument(
                f"Run {run_id} was not started by Runyard: there is no script of it that could be started again.",
                hint="Rerun one that was submitted.",
            )
        snapshot = self._files.get_snapshot(first.snapshot_id).entries if first.snapshot_id else None
        left_out = (SNAPSHOT_PROPERTY, *self._kinds.of(first).results)
        properties = {name: value for name, value in first.properties.items() if name not in left_out}
        definition = _definition(first)
        submission = Submission(
            run_id=new_id,
            definition=definition,
            sweep=sweep_in(definition),
            snapshot=snapshot,
            type=first.type,
            tags=first.tags,
            properties={**properties, RERUN_PROPERTY: first.id},
            display_name=display_name or first.display_name,
            allow_large=True,
            outputs_of=RunId(outputs_of) if (outputs_of := first.definition.runyard.outputs_of) else None,
        )
        return self._submissions.submit(who, first.workspace, experiment or first.experiment, submission)


def _definition(first: RunRecord) -> RunDefinition:
    """Definition with the package lock that the first run used."""
    definition = first.definition.with_runyard(outputs_of=None)
    if not first.environment_lock:
        return definition
    return definition.with_runyard(locked={"run": first.id, "lock": first.environment_lock})
