import contextlib
import json
import shlex
from collections.abc import Sequence
from datetime import datetime

from runyard.compute.clusters import UNMANAGED_TARGETS
from runyard.core.definitions.fields import JsonValue
from runyard.core.definitions.run import RunDefinition
from runyard.core.errors import AlreadyExists, NotFound
from runyard.core.records.runs import RunRecord
from runyard.core.records.sweeps import VALUES_TAG, SweepSpec, Trial, Values
from runyard.runs.children import child_record
from runyard.runs.kinds.kind import KindTools
from runyard.runs.kinds.sweep.live_sweep import LiveSweep
from runyard.runs.kinds.sweep.progress import SweepProgress
from runyard.runs.kinds.sweep.sampling.arguments import child_arguments

VALUE_TAGS = (VALUES_TAG, f"_aml_system_{VALUES_TAG}")
OUTPUTS = "outputs"
"""Folder in which a resumed child finds the outputs of the earlier one."""
_RESUME_ARGUMENT, _RESUME_VARIABLE = "--resume-from", "AZUREML_DATAREFERENCE_MODEL_LOCATION"
_FAST_SAMPLINGS = frozenset({"RANDOM", "GRID"})
_STARTED_AT_ONCE = 25
"""Children started in one step, so that other runs are not delayed."""


class TrialLauncher:
    """Creates and starts the child runs of sweeps, as many as may run at a time."""

    def __init__(self, tools: KindTools) -> None:
        self._tools, self._runs = tools, tools.runs

    def most_at_once(self, sweep: RunRecord, spec: SweepSpec) -> int:
        most = spec.max_concurrent_runs
        return min(most, self._tools.cpus) if sweep.target in UNMANAGED_TARGETS else most

    def fill(self, sweep: RunRecord, live: LiveSweep, progress: SweepProgress) -> None:
        """Start children up to the limit. For many, wakes the controller to continue later."""
        room = self.most_at_once(sweep, live.spec) - len(progress.open)
        now = min(room, _STARTED_AT_ONCE if live.spec.sampling in _FAST_SAMPLINGS else 1)
        if now <= 0:
            return
        made = self._start_next(sweep, live, progress, now)
        if made:
            live.note_scheduled(*made)
            self._tools.controller.advance_all([trial.child_id for trial in made])
        if now < room and progress.has_more:
            self._tools.controller.wake(sweep.id)

    def _start_next(self, sweep: RunRecord, live: LiveSweep, progress: SweepProgress, count: int) -> Sequence[Trial]:
        """Create runs for the next trials; return those trials. Bars the sweep if a run can never be created."""
        made: list[Trial] = []
        try:
            for trial in live.next_trials(progress, count):
                self._create_run(sweep, trial)
                progress.note_created(trial)
                made.append(trial)
        except (AlreadyExists, NotFound) as error:
            live.bar(progress, str(error))
        return made

    def _create_run(self, sweep: RunRecord, trial: Trial) -> None:
        """Create the run of a trial. Raises AlreadyExists if a run that is not a child of the sweep has its id."""
        try:
            child = self._runs.create(run_of_trial(sweep, trial, self._tools.clock.now()))
        except AlreadyExists:
            child = self._runs.get(trial.child_id)
            if child.parent_id != sweep.id:
                raise AlreadyExists(
                    f"The id of its next child, {child.id}, is that of another run (of {child.experiment!r} in "
                    f"workspace {child.workspace!r})."
                ) from None
        with contextlib.suppress(NotFound):  # a deleted dataset: the child fails with it when it is started
            self._tools.inputs.record(child)


def run_of_trial(sweep: RunRecord, trial: Trial, now: datetime) -> RunRecord:
    """Run record of a trial, to store. `sweep` is the whole record."""
    tags = dict.fromkeys(VALUE_TAGS, json.dumps(trial.values))
    return child_record(sweep, trial.child_id, now, definition=_definition(sweep.definition, trial), tags=tags)


def _definition(base: RunDefinition, trial: Trial) -> RunDefinition:
    if trial.resumed_from is None:
        return base.with_runyard(sweep=None).with_fields(**_command(base, trial.values))
    made = base.with_runyard(sweep=None, outputs_of=trial.resumed_from)
    made = made.with_fields(**_command(base, {_RESUME_ARGUMENT: OUTPUTS, **trial.values}))
    # Scripts of SDK v1 without the argument read the variable.
    variables = {_RESUME_VARIABLE: OUTPUTS, **base.environment.variables}
    return made.with_environment(base.environment.with_fields(environmentVariables=variables))


def _command(base: RunDefinition, values: Values) -> dict[str, JsonValue]:
    """Arguments or command with the trial's values. A command is a shell line, so values are quoted."""
    if not base.command:
        return {"arguments": child_arguments(base.arguments, values)}
    return {"command": f"{base.command} {shlex.join(child_arguments((), values))}"}
