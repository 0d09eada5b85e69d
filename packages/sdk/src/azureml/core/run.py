"""Runs, from outside and from inside: `Run`, `get_run`, and `Run.get_context` for the script."""

import os

from azureml._lazy import lazy_names
from azureml.core._offline_run import _OfflineRun  # noqa: F401
from azureml.core._run_datasets import InputDatasets, LinkOutput, OutputDatasets  # noqa: F401
from azureml.core._run_family import RunFamily, Wanted, records
from azureml.core._run_files import RunFiles, files_below
from azureml.core._run_life import TERMINAL_STATES, RunLife
from azureml.core._run_logging import RunLogging
from azureml.exceptions import (  # noqa: F401
    ActivityFailedException, AzureMLException, ExperimentExecutionException, RunEnvironmentException, SnapshotException,
    UserErrorException)
from runyard_sdk.client import quoted
from runyard_sdk.recording import RemoteRecorder

RUNNING_STATES = ["NotStarted", "Queued", "Preparing", "Provisioning", "Starting", "Running", "Unapproved",
                  "NotResponding", "Pausing", "Paused"]
POST_PROCESSING_STATES = ["CancelRequested", "Finalizing"]
RUN_ORIGIN = "ExperimentRun"
BASE_RUN_SOURCE = "azureml.runsource"
SDK_TARGET = "sdk"
OUTPUTS_DIR = "./outputs"
_CONTEXT_VARIABLES = ("AZUREML_RUN_ID", "AZUREML_ARM_SUBSCRIPTION", "AZUREML_ARM_RESOURCEGROUP",
                      "AZUREML_ARM_WORKSPACE_NAME", "AZUREML_ARM_PROJECT_NAME", "AZUREML_RUN_TOKEN")
_PROVIDED_BY = {"hyperdrive": "azureml.train.hyperdrive.run"}
"""Modules that register what makes runs of a type; each is imported when there is the first such run."""
_type_providers = {}
__all__ = ["Run", "get_run"]


class Run(RunLogging, RunFiles, RunLife, RunFamily):
    """One run. Reads ask the service; `status`, `tags` and `properties` are as last seen."""

    DELIM = "#"
    EXPERIMENT_NAME_PATH = "/experiments/{0}"
    EXPERIMENT_ID_PATH = "/experiments/id/{0}"
    RUN_PATH = "/runs/{0}"
    WORKSPACE_FMT = "?wsid=/subscriptions/{0}/resourcegroups/{1}/workspaces/{2}"
    TID_FMT = "&tid={0}"

    def __init__(self, experiment, run_id, outputs=None, **kwargs):
        if not isinstance(run_id, str) or not run_id:
            raise UserErrorException("run_id must be a non-empty string, got {!r}.".format(run_id))
        self._experiment = experiment
        self._client = experiment._client
        self._id = run_id
        self._tracked = outputs
        self._made_recorder = None
        self._claim = kwargs.get("_claim")
        self._ends_with_us = self._claim is not None
        self._record = kwargs.get("_run_dto") or self._client.get(self._path)

    @staticmethod
    def get(workspace, run_id):
        """The run of this id, whichever experiment it is in."""
        from azureml.core.experiment import Experiment

        record = workspace._client.get("/runs/" + quoted(run_id))
        experiment = Experiment(workspace, record["experiment"], _skip_name_validation=True, _create_in_cloud=False)
        return run_of_record(experiment, record)

    @staticmethod
    def list(experiment, type=None, tags=None, properties=None, status=None, include_children=False,
             _rehydrate_runs=True):
        """Generate the experiment's runs, newest first."""
        wanted = Wanted(tags, properties, type, status)
        query = dict(wanted.query(), experiment=experiment.name, children=bool(include_children))
        return (run_of_record(experiment, record) for record in records(experiment.workspace, **query)
                if wanted.matches(record))

    @staticmethod
    def list_by_compute(compute, type=None, tags=None, properties=None, status=None):
        """Generate the runs that were sent to a compute target."""
        from azureml.core.experiment import Experiment

        wanted = Wanted(tags, properties, type, status)
        for record in records(compute.workspace, **wanted.query()):
            if record["target"] == compute.name and wanted.matches(record):
                yield run_of_record(Experiment(compute.workspace, record["experiment"], _create_in_cloud=False), record)

    @classmethod
    def get_context(cls, allow_offline=True, used_for_context_manager=False, **kwargs):
        """The run that this script is part of; outside any run an object that prints what is logged to it.

        Raises RunEnvironmentException outside a run when `allow_offline` is False.
        """
        if all(name in os.environ for name in _CONTEXT_VARIABLES):
            from azureml.core._submitted_run import submitted_run

            return submitted_run()
        if not allow_offline:
            raise RunEnvironmentException()
        return _OfflineRun()

    @classmethod
    def get_submitted_run(cls, **kwargs):
        """get_context, by its old name."""
        return cls.get_context(allow_offline=False)

    @staticmethod
    def add_type_provider(runtype, run_factory):
        """Have `run_factory(experiment, record)` make the objects of runs of a type."""
        _type_providers[runtype] = run_factory

    @property
    def id(self):
        return self._id

    @property
    def identity(self):
        return self._id

    @property
    def experiment(self):
        return self._experiment

    @property
    def number(self):
        return self._record["number"]

    @property
    def type(self):
        """What kind of run it is; None for one that no config was submitted for."""
        return self._record["type"] or None

    @property
    def name(self):
        return self._record.get("display_name") or None

    @property
    def display_name(self):
        return self._record.get("display_name") or None

    @display_name.setter
    def display_name(self, display_name):
        self._recorder.set_display_name(display_name)
        self._record["display_name"] = display_name

    @property
    def description(self):
        return self._record.get("description") or None

    @description.setter
    def description(self, description):
        self._record = self._client.patch(self._path, {"description": description})

    @property
    def tags(self):
        return dict(self._record.get("tags") or {})

    @property
    def properties(self):
        return dict(self._record.get("properties") or {})

    def get_tags(self):
        return dict(self._fresh(always=True).get("tags") or {})

    def get_properties(self):
        return dict(self._fresh(always=True).get("properties") or {})

    def tag(self, key, value=None):
        """Set one tag; without a value it is a bare mark."""
        self.set_tags({key: value})

    def set_tags(self, tags):
        """Merge these tags into the run's own."""
        if not isinstance(tags, dict):
            raise UserErrorException("tags must be a dict, got {}.".format(type(tags).__name__))
        texts = {str(key): "" if value is None else str(value) for key, value in tags.items()}
        self._recorder.set_tags(texts)
        self._record["tags"] = dict(self.tags, **texts)

    def remove_tags(self, tags):
        """Remove the tags of these names."""
        names = [tags] if isinstance(tags, str) else list(tags)
        self._recorder.set_tags({name: None for name in names})
        self._record["tags"] = {key: value for key, value in self.tags.items() if key not in names}

    def add_properties(self, properties):
        """Set properties. One that is set already cannot be changed."""
        texts = {str(key): str(value) for key, value in properties.items()}
        changed = [key for key, value in texts.items() if self.properties.get(key, value) != value]
        if changed:
            raise UserErrorException("Properties cannot be changed once set: {}. Use tags for what changes.".format(
                ", ".join(sorted(changed))))
        self._recorder.set_properties(texts)
        self._record["properties"] = dict(self.properties, **texts)

    def get_environment(self):
        """The environment that the run was submitted with."""
        from azureml.core.environment import Environment

        return Environment._from_object((self._fresh(always=True).get("definition") or {}).get("environment") or {})

    def get_secret(self, name):
        return self.experiment.workspace.get_default_keyvault().get_secret(name)

    def get_secrets(self, secrets):
        return self.experiment.workspace.get_default_keyvault().get_secrets(secrets)

    @property
    def portal_url(self):
        return self._client.transport.address

    def get_portal_url(self):
        """The address of the run's page."""
        return self._record.get("web_view") or "{}/runs/{}".format(self._client.transport.address, quoted(self.id))

    @classmethod
    def get_docs_url(cls):
        return "https://docs.microsoft.com/python/api/azureml-core/azureml.core.run.run"

    @property
    def _path(self):
        return "/runs/" + quoted(self._id)

    @property
    def _has_recorder(self):
        return self._made_recorder is not None

    @property
    def _recorder(self):
        if self._made_recorder is None:
            self._made_recorder = self._new_recorder()
        return self._made_recorder

    def _new_recorder(self):
        return RemoteRecorder(self._client, self._id)

    @property
    def _journal(self):
        return self._recorder.journal

    def _fresh(self, always=False):
        """The record, asked for anew unless the run has ended and cannot change."""
        if always or self._record["status"] not in TERMINAL_STATES or "definition" not in self._record:
            self._record = self._client.get(self._path)
        return self._record

    def _store_tracked(self):
        """Store the folder that an interactive run tracks; what lies there at the end wins."""
        files = files_below(self._tracked, os.path.basename(os.path.normpath(self._tracked))) if self._tracked else {}
        if files:
            self._recorder.store(files, replace=True)

    def __enter__(self):
        return self

    def __exit__(self, exit_type, value, traceback):
        if exit_type is None or (exit_type is SystemExit and value.code in (None, 0)):
            self.complete()
        else:
            self.fail(error_details=value)
        return False

    def __repr__(self):
        return "Run(Experiment: {},\nId: {},\nType: {},\nStatus: {})".format(
            self.experiment.name, self.id, self.type, self.status)

    def __eq__(self, other):
        return isinstance(other, Run) and other.id == self.id

    def __hash__(self):
        return hash(self._id)


def get_run(experiment, run_id, rehydrate=True, clean_up=True):
    """The run of this id in an experiment, as an object of the class that its type has."""
    return run_of_record(experiment, experiment._client.get("/runs/" + quoted(run_id)))


def run_of_record(experiment, record):
    """The object for a run record: of the class registered for its type, else a plain Run."""
    from azureml.core.script_run import ScriptRun

    if record["type"] == ScriptRun.RUN_TYPE:
        return ScriptRun(experiment, record["id"], _run_dto=record)
    if record["type"] in _PROVIDED_BY and record["type"] not in _type_providers:
        from importlib import import_module

        import_module(_PROVIDED_BY[record["type"]])
    if record["type"] in _type_providers:
        return _type_providers[record["type"]](experiment, record)
    return Run(experiment, record["id"], _run_dto=record)


# Names that v1 code finds here because the original imported them here.
lazy_names(__name__, {
    "AbstractDataset": "azureml.data.abstract_dataset",
    "DataPath": "azureml.data.datapath",
    "Datastore": "azureml.core.datastore",
    "Environment": "azureml.core.environment",
    "Keyvault": "azureml.core.keyvault",
})
