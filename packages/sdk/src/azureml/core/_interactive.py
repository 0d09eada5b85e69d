"""Runs whose script is the process that asks for them."""

import os

from azureml.core._claiming import interactive_body, send_claimed
from azureml.core.run import OUTPUTS_DIR, Run
from azureml.exceptions import UserErrorException
from runyard_sdk.gitfacts import git_properties


def start_logging(experiment, outputs=None, snapshot_directory=".", display_name=None, name=None, run_id=None,
                  tags=None, **unknown):
    """A run that is Running at once. Files in `outputs` (default ./outputs, which is made) are stored at its end."""
    if unknown:
        raise UserErrorException("start_logging takes outputs, snapshot_directory, display_name, name, run_id and "
                                 "tags, not {}.".format(", ".join(sorted(unknown))))
    tracked = outputs or OUTPUTS_DIR
    os.makedirs(tracked, exist_ok=True)
    properties = git_properties(snapshot_directory) if snapshot_directory else {}
    properties["azureml.runsource"] = "sdk"
    body = interactive_body(run_id, tags=tags or {}, properties=properties, display_name=display_name or name)
    record, claim = send_claimed(experiment, body, snapshot_directory)
    return Run(experiment, record["id"], outputs=tracked, _run_dto=record, _claim=claim)
