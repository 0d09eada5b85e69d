"""Makes the runs that trials are tried in: what the sweep was submitted with, and the trial's own values."""

import contextlib
import json
import shlex
from collections.abc import Sequence
from datetime import datetime

from runyard.core.definitions.fields import JsonValue
from runyard.core.definitions.run import RunDefinition
from runyard.core.definitions.sweep import SweepSpec
from runyard.errors import AlreadyExists, NotFound
from runyard.model.runs import RunRecord
from runyard.model.sweeps import VALUES_TAG, Trial, Values
from runyard.runs.children import child_record
from runyard.runs.kinds.kind import KindTools
from runyard.runs.kinds.sweep.children import Children
from runyard.runs.kinds.sweep.live_sweep import LiveSweep
from runyard.runs.scheduling.places import UNMANAGED_TARGETS
from runyard.tuning.arguments import child_arguments

VALUE_TAGS = (VALUES_TAG, f"_aml_system_{VALUES_TAG}")
OUTPUTS = "outputs"
"""The folder of a child that is begun again in which it finds what the earlier one left."""
_RESUME_ARGUMENT, _RESUME_VARIABLE = "--resume-from", "AZUREML_DATAREFERENCE_MODEL_LOCATION"
_QUICK_SAMPLINGS = frozenset({"RANDOM", "GRID"})
_MADE_IN_ONE_GO = 25
"""So many children are made before others get the controller's attention."""


class Making:
    """Makes the children of sweeps: as many as may go on at a time."""

    def __init__(self, tools: KindTools) -> None:
        self._tools, self._runs = tools, tools.runs

    def most_at_once(self, sweep: RunRecord, spec: SweepSpec) -> int:
        most = spec.max_concurrent_runs
        return min(most, self._tools.cpus) if sweep.target in UNMANAGED_TARGETS else most

    def fill(self, sweep: RunRecord, live: LiveSweep, children: Children) -> None:
        """Have as many children as may go on. Of many, others get a turn in between."""
        room = self.most_at_once(sweep, live.spec) - len(children.open)
        now = min(room, _MADE_IN_ONE_GO if live.spec.sampling in _QUICK_SAMPLINGS else 1)
        if now <= 0:
            return
        made = self._make_next(sweep, live, children, now)
        if made:
            live.note_scheduled(*made)
            self._tools.controller.advance_all([trial.child_id for trial in made])
        if now < room and children.has_more:
            self._tools.controller.wake(sweep.id)

    def _make_next(self, sweep: RunRecord, live: LiveSweep, children: Children, count: int) -> Sequence[Trial]:
        """The trials that have their run now. The sweep is barred where the next can never have one."""
        made: list[Trial] = []
        try:
            for trial in live.next_trials(children, count):
                self._make(sweep, trial)
                children.made(trial)
                made.append(trial)
        except (AlreadyExists, NotFound) as error:
            live.bar(children, str(error))
        return made

    def _make(self, sweep: RunRecord, trial: Trial) -> None:
        """Raises AlreadyExists where a run that is no child of the sweep has the child's id."""
        try:
            child = self._runs.create(run_of_trial(sweep, trial, self._tools.clock.now()))
        except AlreadyExists:
            child = self._runs.get(trial.child_id)
            if child.parent_id != sweep.id:
                raise AlreadyExists(
                    f"The id of its next child, {child.id}, is that of another run (of {child.experiment!r} in "
                    f"workspace {child.workspace!r})."
                ) from None
        with contextlib.suppress(NotFound):  # a dataset that is gone: the child says so when it is started
            self._tools.inputs.record(child)


def run_of_trial(sweep: RunRecord, trial: Trial, now: datetime) -> RunRecord:
    """As it is stored. `sweep` is the whole record."""
    tags = dict.fromkeys(VALUE_TAGS, json.dumps(trial.values))
    return child_record(sweep, trial.child_id, now, definition=_definition(sweep.definition, trial), tags=tags)


def _definition(base: RunDefinition, trial: Trial) -> RunDefinition:
    if trial.resumed_from is None:
        return base.with_runyard(sweep=None).with_fields(**_command(base, trial.values))
    made = base.with_runyard(sweep=None, outputs_of=trial.resumed_from)
    made = made.with_fields(**_command(base, {_RESUME_ARGUMENT: OUTPUTS, **trial.values}))
    # Scripts of SDK v1 that do not take the argument look for the variable.
    variables = {_RESUME_VARIABLE: OUTPUTS, **base.environment.variables}
    return made.with_environment(base.environment.with_fields(environmentVariables=variables))


def _command(base: RunDefinition, values: Values) -> dict[str, JsonValue]:
    """A command is a shell's line, so what is added to it is quoted."""
    if not base.command:
        return {"arguments": child_arguments(base.arguments, values)}
    return {"command": f"{base.command} {shlex.join(child_arguments((), values))}"}
