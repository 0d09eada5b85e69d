"""Runs: `Run`, `get_run`, and `Run.get_context` for scripts, which returns a submitted or an offline run."""

import os

from azureml._lazy import lazy_names
from azureml.core._child_runs import ChildRuns, RunFilter, run_records
from azureml.core._run_files import RunFiles, files_below
from azureml.core._run_metrics import RunMetrics
from azureml.core._run_status import TERMINAL_STATES, RunStatus, error_of
from azureml.exceptions import (  # noqa: F401
    ActivityFailedException, AzureMLException, ExperimentExecutionException, RunEnvironmentException, SnapshotException,
    UserErrorException)
from runyard_sdk.client import quoted
from runyard_sdk.ids import uuid4
from runyard_sdk.recorder import InRunRecorder, RemoteRecorder

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
"""Modules that register a factory for runs of a type; imported for the first run of that type."""
_type_providers = {}
__all__ = ["Run", "get_run"]
_submitted_runs = {}


class InputDatasets(dict):
    """Inputs by name: a path where the data is mounted or downloaded, a Dataset where it is read directly."""

    def __init__(self, workspace):
        super().__init__()
        self.workspace = workspace

    def __missing__(self, name):
        raise UserErrorException("This run has no input dataset {!r}. It has: {}.".format(
            name, ", ".join(sorted(self)) or "none"))


class OutputDatasets(dict):
    """Outputs by name: the path to write to, or an object to link a dataset with."""

    def __init__(self, workspace):
        super().__init__()
        self.workspace = workspace


class LinkOutput:
    """An output for which the script names a dataset."""

    def __init__(self, workspace, name=None):
        self.workspace, self.name = workspace, name

    def link(self, dataset, run=None):
        """Make `dataset` this output of the run (of this script's run, if None)."""
        from azureml.data.abstract_dataset import AbstractDataset

        if not isinstance(dataset, AbstractDataset):
            raise UserErrorException("dataset must be a dataset, for example Dataset.File.from_files(...), got "
                                     "{!r}.".format(dataset))
        run = run or Run.get_context(allow_offline=False)
        run._client.post_again(run._path + "/outputs", {
            "name": self.name, "dataset_id": dataset._saved(self.workspace).id})


def _input_datasets(workspace, variables):
    """Inputs from the environment variables of a script: `AZUREML_DATASET_ENVIRONMENT_VARS` is `name:mode,...`."""
    found = InputDatasets(workspace)
    for item in filter(None, variables.get("AZUREML_DATASET_ENVIRONMENT_VARS", "").split(",")):
        name, _, mode = item.partition(":")
        value = variables.get(name, "")
        found[name] = _dataset_by_id(workspace, value) if mode.lower() == "direct" else value
    return found


def _output_datasets(workspace, variables):
    found = OutputDatasets(workspace)
    for name in filter(None, variables.get("AZUREML_DATASET_FILE_OUTPUTS", "").split(";")):
        found[name] = variables.get(name, "")
    for name in filter(None, variables.get("AZUREML_LINK_DATASET_OUTPUTS", "").split(";")):
        found[name] = LinkOutput(workspace, name)
    return found


def _dataset_by_id(workspace, dataset_id):
    from azureml.core.dataset import Dataset

    return Dataset.get_by_id(workspace, dataset_id)


class _OfflineRun:
    """Run of a script outside Runyard: prints what is logged. Has no experiment, parent or history: those attributes
    are missing, as in v1."""

    def __init__(self, run_id=None):
        self._run_id = run_id or "OfflineRun_{}".format(uuid4())

    @property
    def id(self):
        return self._run_id

    def log(self, name, value, description=""):
        self._show("scalar metric", name, value)

    def log_list(self, name, value, description=""):
        self._show("list metric", name, value)

    def log_row(self, name, description=None, **kwargs):
        self._show("row metric", name, kwargs)

    def log_table(self, name, value, description=""):
        self._show("table metric", name, value)

    def log_image(self, name, path=None, plot=None, description=""):
        if (path is None) == (plot is None):
            raise UserErrorException("Give exactly one of path and plot to log_image.")
        self._show("image metric", name, path if path is not None else plot)

    def log_confusion_matrix(self, name, value, description=""):
        self._show("confusion matrix", name, value)

    def log_accuracy_table(self, name, value, description=""):
        self._show("accuracy table", name, value)

    def log_residuals(self, name, value, description=""):
        self._show("residuals", name, value)

    def log_predictions(self, name, value, description=""):
        self._show("predictions", name, value)

    def add_properties(self, properties):
        print("Attempted to add properties:\n{}".format(properties))

    def set_tags(self, tags):
        print("Attempted to set tags:\n{}".format(tags))

    def tag(self, key, value=None):
        print("Attempted to tag {}:\n{}".format(key, value))

    def upload_file(self, name, path_or_stream, datastore_name=None):
        print("Attempted to upload file {}:\n{}".format(name, path_or_stream))

    def upload_files(self, names, paths, return_artifacts=False, timeout_seconds=None, datastore_name=None):
        print("Attempted to upload files {}:\n{}".format(names, paths))

    def upload_folder(self, name, path, datastore_name=None):
        print("Attempted to upload folder {}:\n{}".format(name, path))

    def child_run(self, name=None, run_id=None, outputs=None):
        return _OfflineRun(run_id)

    def complete(self, _set_status=True):
        """Do nothing."""

    def fail(self, error_details=None, error_code=None, _set_status=True):
        """Do nothing."""

    def cancel(self):
        """Do nothing."""

    def flush(self, timeout_seconds=300):
        """Do nothing."""

    def __enter__(self):
        return self

    def __exit__(self, exit_type, value, traceback):
        return False

    def __repr__(self):
        return "Run(Id: {},\nType: offline)".format(self._run_id)

    def _show(self, what, name, value):
        print("Attempted to log {} {}:\n{}".format(what, name, value))


class Run(RunMetrics, RunFiles, RunStatus, ChildRuns):
    """A run. Methods ask the service; `status`, `tags` and `properties` are the last values read."""

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
        """Return the run with this id, of any experiment of the workspace."""
        from azureml.core.experiment import Experiment

        record = workspace._client.get("/runs/" + quoted(run_id))
        experiment = Experiment(workspace, record["experiment"], _skip_name_validation=True, _create_in_cloud=False)
        return run_of_record(experiment, record)

    @staticmethod
    def list(experiment, type=None, tags=None, properties=None, status=None, include_children=False,
             _rehydrate_runs=True):
        """Generate the experiment's runs, newest first."""
        wanted = RunFilter(tags, properties, type, status)
        query = dict(wanted.query(), experiment=experiment.name, children=bool(include_children))
        return (run_of_record(experiment, record) for record in run_records(experiment.workspace, **query)
                if wanted.matches(record))

    @staticmethod
    def list_by_compute(compute, type=None, tags=None, properties=None, status=None):
        """Generate the runs submitted to a compute target."""
        from azureml.core.experiment import Experiment

        wanted = RunFilter(tags, properties, type, status)
        for record in run_records(compute.workspace, **wanted.query()):
            if record["target"] == compute.name and wanted.matches(record):
                yield run_of_record(Experiment(compute.workspace, record["experiment"], _create_in_cloud=False), record)

    @classmethod
    def get_context(cls, allow_offline=True, used_for_context_manager=False, **kwargs):
        """Return the run of this script; outside a run an object that prints what is logged.

        Raises RunEnvironmentException outside a run if `allow_offline` is False.
        """
        if all(name in os.environ for name in _CONTEXT_VARIABLES):
            return _submitted_run()
        if not allow_offline:
            raise RunEnvironmentException()
        return _OfflineRun()

    @classmethod
    def get_submitted_run(cls, **kwargs):
        """Old name of get_context."""
        return cls.get_context(allow_offline=False)

    @staticmethod
    def add_type_provider(runtype, run_factory):
        """Register `run_factory(experiment, record)`, which makes the objects of runs of this type."""
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
        """Kind of run; None for one without a submitted config."""
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
        """Set one tag; without a value the tag is empty."""
        self.set_tags({key: value})

    def set_tags(self, tags):
        """Merge these tags into the run's tags."""
        if not isinstance(tags, dict):
            raise UserErrorException("tags must be a dict, got {}.".format(type(tags).__name__))
        texts = {str(key): "" if value is None else str(value) for key, value in tags.items()}
        self._recorder.set_tags(texts)
        self._record["tags"] = dict(self.tags, **texts)

    def remove_tags(self, tags):
        """Remove the tags with these names."""
        names = [tags] if isinstance(tags, str) else list(tags)
        self._recorder.set_tags({name: None for name in names})
        self._record["tags"] = {key: value for key, value in self.tags.items() if key not in names}

    def add_properties(self, properties):
        """Set properties. Raises for a property that is set already."""
        texts = {str(key): str(value) for key, value in properties.items()}
        changed = [key for key, value in texts.items() if self.properties.get(key, value) != value]
        if changed:
            raise UserErrorException("Properties cannot be changed once set: {}. Use tags for what changes.".format(
                ", ".join(sorted(changed))))
        self._recorder.set_properties(texts)
        self._record["properties"] = dict(self.properties, **texts)

    def get_environment(self):
        """Environment that the run was submitted with."""
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
        """URL of the run's page."""
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
        """The record; asks the service unless the run has ended and cannot change."""
        if always or self._record["status"] not in TERMINAL_STATES or "definition" not in self._record:
            self._record = self._client.get(self._path)
        return self._record

    def _store_tracked(self):
        """Upload the folder that an interactive run tracks; its content at the end wins."""
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
    """Run with this id in an experiment, as an object of the class registered for its type."""
    return run_of_record(experiment, experiment._client.get("/runs/" + quoted(run_id)))


def run_of_record(experiment, record):
    """Object for a run record: of the class registered for its type, else a plain Run."""
    from azureml.core.script_run import ScriptRun

    if record["type"] == ScriptRun.RUN_TYPE:
        return ScriptRun(experiment, record["id"], _run_dto=record)
    if record["type"] in _PROVIDED_BY and record["type"] not in _type_providers:
        from importlib import import_module

        import_module(_PROVIDED_BY[record["type"]])
    if record["type"] in _type_providers:
        return _type_providers[record["type"]](experiment, record)
    return Run(experiment, record["id"], _run_dto=record)


def _submitted_run():
    """Run of this process's environment variables: one object per run, made without asking the service."""
    key = tuple(os.environ[name] for name in (
        "AZUREML_ARM_SUBSCRIPTION", "AZUREML_ARM_RESOURCEGROUP", "AZUREML_ARM_WORKSPACE_NAME",
        "AZUREML_ARM_PROJECT_NAME", "AZUREML_RUN_ID"))
    if key not in _submitted_runs:
        _submitted_runs[key] = _SubmittedRun(os.environ)
    return _submitted_runs[key]


class _SubmittedRun(Run):
    """Run of the script that this process executes. Writes go to the journal and the uploads folder at once; reads
    flush, then ask the service. Its status follows the process: complete, fail and cancel do not set it."""

    def __init__(self, variables):
        self._variables = dict(variables)
        self._id = self._variables["AZUREML_RUN_ID"]
        self._tracked = None
        self._made_recorder = None
        self._claim, self._ends_with_us = None, True
        self._seen = None
        self._lazy_experiment = None
        self._inputs = None

    @property
    def _client(self):
        from azureml._service import client

        return client()

    @property
    def experiment(self):
        if self._lazy_experiment is None:
            self._lazy_experiment = _experiment_of(self._variables)
        return self._lazy_experiment

    @property
    def _record(self):
        if self._seen is None:
            self.flush()
            self._seen = self._client.get(self._path)
        return self._seen

    @_record.setter
    def _record(self, record):
        self._seen = record

    @property
    def input_datasets(self):
        if self._inputs is None:
            self._inputs = _input_datasets(self.experiment.workspace, self._variables)
        return self._inputs

    @property
    def output_datasets(self):
        return _output_datasets(self.experiment.workspace, self._variables)

    def set_tags(self, tags):
        """Merge these tags into the run's tags, without asking the service."""
        texts = {str(key): "" if value is None else str(value) for key, value in tags.items()}
        self._recorder.set_tags(texts)
        self._note("tags", texts)

    def remove_tags(self, tags):
        self._recorder.set_tags({name: None for name in ([tags] if isinstance(tags, str) else tags)})
        self._seen = None

    def add_properties(self, properties):
        texts = {str(key): str(value) for key, value in properties.items()}
        self._recorder.set_properties(texts)
        self._note("properties", texts)

    def get_tags(self):
        self.flush()
        return super().get_tags()

    def get_properties(self):
        self.flush()
        return super().get_properties()

    def get_file_names(self):
        self.flush()
        return super().get_file_names()

    def complete(self, _set_status=True):
        """Flush. The run completes when its process does."""
        self.flush()

    def fail(self, error_details=None, error_code=None, _set_status=True):
        """Record the error. The run fails when its process does."""
        error = error_of(error_details, error_code)["error"]
        self._journal.error(error["code"], error["message"])
        self.flush()

    def cancel(self):
        """No effect inside the run, as in v1."""
        import warnings

        warnings.warn("cancel() has no effect inside the run; end the script instead.")

    def _new_recorder(self):
        return InRunRecorder(self._id, self._variables)

    def _of_record(self, record):
        child = super()._of_record(record)
        child._new_recorder = lambda: InRunRecorder(child.id, self._variables)
        return child

    def _note(self, field, texts):
        if self._seen is not None:
            self._seen[field] = dict(self._seen.get(field) or {}, **texts)


def _experiment_of(variables):
    from azureml.core.experiment import Experiment
    from azureml.core.workspace import Workspace

    record = {"name": variables["AZUREML_ARM_WORKSPACE_NAME"], "id": variables.get("AZUREML_WORKSPACE_ID", ""),
              "subscription_id": variables["AZUREML_ARM_SUBSCRIPTION"], "location": "local", "created_at": None,
              "resource_group": variables["AZUREML_ARM_RESOURCEGROUP"]}
    workspace = Workspace(record["subscription_id"], record["resource_group"], record["name"], _record=record)
    return Experiment(workspace, variables["AZUREML_ARM_PROJECT_NAME"], _skip_name_validation=True,
                      _id=variables.get("AZUREML_EXPERIMENT_ID"), _create_in_cloud=False)


# Names that the original module imports, and that v1 code imports from here.
lazy_names(__name__, {
    "AbstractDataset": "azureml.data.abstract_dataset",
    "DataPath": "azureml.data.datapath",
    "Datastore": "azureml.core.datastore",
    "Environment": "azureml.core.environment",
    "Keyvault": "azureml.core.keyvault",
})
