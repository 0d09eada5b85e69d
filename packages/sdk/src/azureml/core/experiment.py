import os
import re

from azureml._lazy import lazy_names
from azureml.core._submission import submit
from azureml.exceptions import UserErrorException
from runyard_sdk.submitter import git_properties

_NAME = re.compile(r"^[a-zA-Z0-9][\w\-]{0,254}\Z")
__all__ = ["Experiment"]


class ViewType:
    """Filter of `Experiment.list`."""

    ActiveOnly = "ActiveOnly"
    All = "All"
    ArchivedOnly = "ArchivedOnly"


class Experiment:
    """A named group of runs in a workspace; created on construction if it does not exist."""

    DELIM = "#"
    EXPERIMENT_NAME_PATH = "/experiments/{0}"
    EXPERIMENT_ID_PATH = "/experiments/id/{0}"
    WORKSPACE_FMT = "?wsid=/subscriptions/{0}/resourcegroups/{1}/workspaces/{2}"
    TID_FMT = "&tid={0}"

    def __init__(self, workspace, name, _skip_name_validation=False, _id=None, _archived_time=None,
                 _create_in_cloud=True, _experiment_dto=None, **kwargs):
        if not _skip_name_validation and (not isinstance(name, str) or not _NAME.match(name)):
            raise UserErrorException("The experiment name {!r} is not valid. It has 1 to 255 characters: letters, "
                                     "digits, '-' and '_', and begins with a letter or digit.".format(name))
        self._workspace, self._name = workspace, name
        self._client = getattr(workspace, "_client", None)
        if self._client is None:
            raise UserErrorException("workspace must be a Workspace, got {!r}. Get one with "
                                     "Workspace.from_config().".format(workspace))
        self._record = _experiment_dto
        if self._record is None and _create_in_cloud:
            self._record = self._client.put(self._path, {})

    def submit(self, config, tags=None, **kwargs):
        """Submit a ScriptRunConfig or an estimator; return the run at once."""
        return submit(self, config, tags=tags, **kwargs)

    def start_logging(self, *args, **kwargs):
        """Start an interactive run: this process is its script. Arguments: outputs, snapshot_directory, display_name,
        name, run_id. `with` completes it, or fails it on an exception."""
        return _start_logging(self, *args, **kwargs)

    def get_runs(self, type=None, tags=None, properties=None, include_children=False):
        """Generate the runs, newest first; top-level ones only unless `include_children`."""
        from azureml.core.run import Run

        return Run.list(self, type=type, tags=tags, properties=properties, include_children=include_children)

    @staticmethod
    def list(workspace, experiment_name=None, view_type="ActiveOnly", tags=None):
        """Experiments of the workspace; `view_type` is ActiveOnly, ArchivedOnly or All."""
        found = []
        for record in workspace._client.get(workspace._path("experiments"))["experiments"]:
            is_archived = bool(record.get("archived_at"))
            wanted = view_type == "All" or is_archived == (view_type == "ArchivedOnly")
            if wanted and experiment_name in (None, record["name"]) and _has_tags(record.get("tags") or {}, tags):
                found.append(Experiment(workspace, record["name"], _skip_name_validation=True, _experiment_dto=record))
        return found

    @staticmethod
    def delete(workspace, experiment_id):
        """Delete the experiment with this id and all its runs. Refused while a run is active; see archive()."""
        for experiment in Experiment.list(workspace, view_type="All"):
            if experiment.id == experiment_id:
                workspace._client.delete(experiment._path)
                return
        raise UserErrorException("There is no experiment with the id {!r} in workspace {!r}.".format(
            experiment_id, workspace.name))

    @staticmethod
    def from_directory(path, auth=None):
        """Experiment named after a folder, in the workspace of the folder's config file."""
        from azureml.core.workspace import Workspace

        return Experiment(Workspace.from_config(path, auth=auth), os.path.basename(os.path.abspath(path)))

    def archive(self):
        self._record = self._client.patch(self._path, {"archived": True})

    def reactivate(self, new_name=None):
        self._record = self._client.patch(self._path, {"archived": False})

    def refresh(self):
        self._record = self._client.put(self._path, {})

    def tag(self, key, value=None):
        self.set_tags({key: value})

    def set_tags(self, tags):
        """Merge these tags into the experiment's tags."""
        texts = {str(key): "" if value is None else str(value) for key, value in tags.items()}
        self._record = self._client.patch(self._path, {"tags": texts})

    def remove_tags(self, tags):
        self._record = self._client.patch(self._path, {"tags": {key: None for key in tags}})

    @property
    def tags(self):
        return dict((self._record or {}).get("tags") or {})

    @property
    def name(self):
        return self._name

    @property
    def id(self):
        return (self._record or {}).get("id")

    @property
    def archived_time(self):
        return (self._record or {}).get("archived_at")

    @property
    def workspace(self):
        return self._workspace

    @property
    def workspace_object(self):
        return self._workspace

    @property
    def identity(self):
        return self._name

    @property
    def portal_url(self):
        return self._client.transport.address

    def get_portal_url(self):
        """Page of its newest run; of the service if it has no run."""
        newest = next(iter(self.get_runs()), None)
        return self.portal_url if newest is None else newest.get_portal_url()

    @classmethod
    def get_docs_url(cls):
        return "https://docs.microsoft.com/python/api/azureml-core/azureml.core.experiment.experiment"

    @property
    def _path(self):
        return self._workspace._path("experiments", self._name)

    def __repr__(self):
        return "Experiment(Name: {},\nWorkspace: {})".format(self._name, self._workspace.name)


def _has_tags(present, wanted):
    if not wanted:
        return True
    if isinstance(wanted, str):
        return wanted in present
    return all(present.get(key) == value for key, value in wanted.items())


def _start_logging(experiment, outputs=None, snapshot_directory=".", display_name=None, name=None, run_id=None,
                   tags=None, **unknown):
    """Start a run that is Running at once. Files in `outputs` (default ./outputs, created) are uploaded at its end."""
    from azureml.core._child_runs import interactive_body, send_claimed
    from azureml.core.run import OUTPUTS_DIR, Run

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


class HasWorkspacePortal(object):
    WORKSPACE_FMT = "?wsid=/subscriptions/{0}/resourcegroups/{1}/workspaces/{2}"
    TID_FMT = "&tid={0}"

    def __init__(self, workspace):
        self._portal_workspace = workspace

    @property
    def portal_url(self):
        return self.get_portal_url()

    def get_portal_url(self):
        workspace = self._portal_workspace
        return self.WORKSPACE_FMT.format(workspace.subscription_id, workspace.resource_group, workspace.name)


class HasExperimentPortal(HasWorkspacePortal):
    EXPERIMENT_NAME_PATH = "/experiments/{0}"
    EXPERIMENT_ID_PATH = "/experiments/id/{0}"

    def __init__(self, experiment):
        super(HasExperimentPortal, self).__init__(experiment.workspace)
        self._portal_experiment = experiment

    def get_portal_url(self):
        return (self.EXPERIMENT_NAME_PATH.format(self._portal_experiment.name)
                + super(HasExperimentPortal, self).get_portal_url())


# Names that the original module imports, and that v1 code imports from here.
lazy_names(__name__, {
    "ComputeInstance": "azureml.core.compute",
    "DEFAULT_GPU_IMAGE": "azureml.core.environment",
})
