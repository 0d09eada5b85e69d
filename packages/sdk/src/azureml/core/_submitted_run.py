"""The run that a script finds itself in."""

import os

from azureml.core._run_datasets import input_datasets, output_datasets
from azureml.core._run_life import error_of
from azureml.core.run import Run
from runyard_sdk.recording import InRunRecorder

_found = {}


def submitted_run():
    """The run of this process's variables: one object per run, made without asking the service."""
    key = tuple(os.environ[name] for name in (
        "AZUREML_ARM_SUBSCRIPTION", "AZUREML_ARM_RESOURCEGROUP", "AZUREML_ARM_WORKSPACE_NAME",
        "AZUREML_ARM_PROJECT_NAME", "AZUREML_RUN_ID"))
    if key not in _found:
        _found[key] = _SubmittedRun(os.environ)
    return _found[key]


class _SubmittedRun(Run):
    """What it is told goes into the journal and the uploads folder at once; what is read comes over the wire,
    after a flush. Its status is that of its process: complete, fail and cancel do not set it.
    """

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
            self._inputs = input_datasets(self.experiment.workspace, self._variables)
        return self._inputs

    @property
    def output_datasets(self):
        return output_datasets(self.experiment.workspace, self._variables)

    def set_tags(self, tags):
        """Merge these tags into the run's own; nothing is asked of the service."""
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
        """Store what is on its way. The run completes when its process does."""
        self.flush()

    def fail(self, error_details=None, error_code=None, _set_status=True):
        """Record the error. The run fails when its process does."""
        error = error_of(error_details, error_code)["error"]
        self._journal.error(error["code"], error["message"])
        self.flush()

    def cancel(self):
        """No effect from inside, as in v1."""
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
