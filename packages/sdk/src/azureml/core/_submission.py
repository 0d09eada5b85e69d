"""Submitting a config object as a run."""

import os
import time

from azureml._service import translated
from azureml._version import VERSION
from azureml.exceptions import UserErrorException
from runyard_sdk import snapshot
from runyard_sdk.blobs import send_missing
from runyard_sdk.errors import BlobsMissing, NotFound, RunyardError
from runyard_sdk.submitter import git_properties
from runyard_sdk.submitter import submitter_facts

_SENDING_ATTEMPTS = 5
_LONGEST_NAME_IN_ID = 170


def submit(experiment, config, tags=None, parent_id=None, run_id=None, display_name=None, **kwargs):
    """Submit a config to an experiment; return the run, of the class registered for its type."""
    from azureml.core.run import run_of_record

    to_submission = getattr(config, "_to_submission", None)
    if to_submission is None:
        raise UserErrorException(
            "config must be a ScriptRunConfig, an estimator or a HyperDriveConfig, got {}. Wrap the script in "
            "ScriptRunConfig(source_directory, script, ...).".format(type(config).__name__))
    asked = to_submission(experiment.workspace, **kwargs)
    folder = asked.get("source_directory") if asked.get("snapshot") is not False else None
    definition = dict(asked["definition"])
    definition["runyard"] = dict(definition.get("runyard") or {}, submitter=submitter_facts())
    properties = dict(git_properties(folder)) if folder else {}
    properties.update(asked.get("properties") or {})
    properties.setdefault("azureml.runsource", "experiment")
    properties.setdefault("azureml.sdk", VERSION)
    record = send(experiment, {
        "run_id": run_id or asked.get("run_id") or new_run_id(experiment.name),
        "type": asked.get("type") or "azureml.scriptrun", "definition": definition, "properties": properties,
        "tags": as_texts(asked.get("tags"), tags), "display_name": display_name, "parent_id": parent_id,
        "interactive": False}, folder)
    run = run_of_record(experiment, record)
    if hasattr(config, "_submitted_as"):
        config._submitted_as(run)
    return run


def send(experiment, body, folder=None):
    """POST a run with the snapshot of a folder (or None); uploads missing contents first."""
    path = experiment._path + "/runs"
    if folder is None:
        return experiment._client.post_again(path, dict(body, snapshot=None))
    full = dict(body, allow_large=_snapshot_limit() > snapshot.REFUSE_BYTES)
    return send_with_snapshot(experiment._client, folder,
                              lambda entries: experiment._client.post_again(path, dict(full, snapshot=entries)))


def send_with_snapshot(client, file_or_folder, post):
    """Call `post` with the snapshot's entries; upload contents that the service lacks and call again.

    A file that changes meanwhile is taken as it was sent, a removed one is left out. Raises UserErrorException naming
    files that could not be sent.
    """
    place = os.path.abspath(file_or_folder)
    folder = os.path.dirname(place) if os.path.isfile(place) else place
    entries = _entries(place, _snapshot_limit(), warn=True)
    for _ in range(_SENDING_ATTEMPTS):
        try:
            return post(entries)
        except BlobsMissing as error:
            missing, problem = set(error.facts["sha256"]), error
        try:
            entries = send_missing(client, entries, lambda path: os.path.join(folder, path), missing)
        except (FileNotFoundError, NotFound) as error:
            problem = error
            entries = _entries(place, _snapshot_limit(), warn=False)
    raise UserErrorException("{} of {} could not be sent: {} Try again once nothing changes or removes them.".format(
        ", ".join(repr(entry[0]) for entry in entries if entry[1] in missing) or "Files", folder, problem))


def new_run_id(experiment_name):
    short = experiment_name.encode("utf-8")[:_LONGEST_NAME_IN_ID].decode("utf-8", "ignore")
    return "{}_{}_{}".format(short, int(time.time()), os.urandom(4).hex())


def as_texts(*tags):
    """Merge tags of several sources into one mapping of strings; later ones win."""
    merged = {}
    for given in tags:
        for key, value in (given or {}).items():
            merged[str(key)] = "" if value is None else str(value)
    return merged


def _entries(file_or_folder, limit, warn):
    if os.path.isfile(file_or_folder):
        return snapshot.take_file(file_or_folder)
    try:
        return snapshot.take(file_or_folder, refuse_above=limit, warn=_show if warn else None)
    except RunyardError as error:
        raise translated(error)


def _snapshot_limit():
    """Limit set by the user through v1's constant, higher or lower; by default 10 GB, where v1 refused above 300 MB."""
    from azureml._restclient import snapshots_client

    limit = snapshots_client.SNAPSHOT_MAX_SIZE_BYTES
    return snapshot.REFUSE_BYTES if limit == snapshot.WARN_BYTES else limit


def _show(text):
    import warnings

    warnings.warn(text, stacklevel=2)
