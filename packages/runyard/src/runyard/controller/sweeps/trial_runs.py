"""The run that a trial is tried in: what its sweep was submitted with, and the trial's own values."""

import json
import shlex
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from runyard.model.runs import RunRecord, RunStatus
from runyard.model.sweeps import VALUES_TAG, Trial, Values
from runyard.services.definition import OUTPUTS_OF
from runyard.tuning.arguments import child_arguments

TRIAL_TYPE = "azureml.scriptrun"
VALUE_TAGS = (VALUES_TAG, f"_aml_system_{VALUES_TAG}")
OUTPUTS = "outputs"
"""The folder of a child that is begun again in which it finds what the earlier one left."""
_RESUME_ARGUMENT, _RESUME_VARIABLE = "--resume-from", "AZUREML_DATAREFERENCE_MODEL_LOCATION"
_OF_THE_CODE = ("ContentSnapshotId", "_azureml.ComputeTargetType")
_OF_ITS_REPOSITORY = ("azureml.git.", "mlflow.source.git.")


def run_of_trial(sweep: RunRecord, trial: Trial, now: datetime) -> RunRecord:
    """As it is stored. `sweep` is the whole record: what was checked at the submit is not checked again."""
    values = json.dumps(trial.values)
    return RunRecord(
        id=trial.child_id,
        workspace=sweep.workspace,
        experiment=sweep.experiment,
        number=0,
        status=RunStatus.NOT_STARTED,
        created_at=now,
        type=TRIAL_TYPE,
        target=sweep.target,
        parent_id=sweep.id,
        root_id=sweep.root_id or sweep.id,
        snapshot_id=sweep.snapshot_id,
        definition=_definition(sweep.definition, trial),
        tags=dict.fromkeys(VALUE_TAGS, values),
        properties={
            name: value
            for name, value in sweep.properties.items()
            if name in _OF_THE_CODE or name.startswith(_OF_ITS_REPOSITORY)
        },
    )


def _definition(base: Mapping[str, Any], trial: Trial) -> dict[str, Any]:
    ours = {name: value for name, value in (base.get("runyard") or {}).items() if name != "sweep"}
    if trial.resumed_from is None:
        return {**base, **_command(base, trial.values), "runyard": ours}
    command = _command(base, {_RESUME_ARGUMENT: OUTPUTS, **trial.values})
    return {**base, **command, **_environment(base), "runyard": {**ours, OUTPUTS_OF: trial.resumed_from}}


def _environment(base: Mapping[str, Any]) -> dict[str, Any]:
    """That of a child that is begun again: scripts of SDK v1 that do not take the argument look for the variable."""
    environment = base.get("environment") or {}
    variables = {_RESUME_VARIABLE: OUTPUTS, **(environment.get("environmentVariables") or {})}
    return {"environment": {**environment, "environmentVariables": variables}}


def _command(base: Mapping[str, Any], values: Values) -> dict[str, Any]:
    """A command is a shell's line, so what is added to it is quoted."""
    command = base.get("command")
    if not command:
        return {"arguments": child_arguments([str(word) for word in base.get("arguments") or ()], values)}
    words = [command] if isinstance(command, str) else list(map(str, command))
    return {"command": " ".join([*words, shlex.join(child_arguments((), values))])}
