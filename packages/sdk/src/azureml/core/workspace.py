"""Workspaces: containers of experiments, models, data and compute."""

import re

from azureml._lazy import lazy_names
from azureml._service import client, translated
from azureml._unsupported import not_yet, unsupported
from azureml._version import VERSION  # noqa: F401
from azureml.exceptions import ProjectSystemException, UserErrorException, WorkspaceException  # noqa: F401
from runyard_sdk import configfile
from runyard_sdk.client import quoted
from runyard_sdk.errors import AlreadyExists, NotFound, RunyardError

_CLOUD_ONLY = "It belongs to the cloud that the original runs in; leave the call out."
WORKSPACE_DEFAULT_BLOB_STORE_NAME = "workspaceblobstore"
_DEFAULT_NAME = "default"
_LOCAL = "local"
_NAME = re.compile(r"^[a-zA-Z0-9][\w\-]{2,32}\Z")
__all__ = ["Workspace"]


class _UnsupportedMembers:
    """Members of a v1 workspace that exist only in Azure: empty, without effect, or raising with a hint."""

    @property
    def private_endpoints(self):
        return {}

    @property
    def linked_services(self):
        return {}

    def add_private_endpoint(self, private_endpoint_config, private_endpoint_auto_approval=True, location=None,
                             show_output=True, tags=None):
        raise unsupported("Workspace.add_private_endpoint", _CLOUD_ONLY)

    def delete_private_endpoint_connection(self, private_endpoint_connection_name):
        raise unsupported("Workspace.delete_private_endpoint_connection", _CLOUD_ONLY)

    def set_connection(self, name, category, target, authType, value):
        raise unsupported("Workspace.set_connection", "Keep the secret in get_default_keyvault() instead.")

    def get_connection(self, name):
        raise unsupported("Workspace.get_connection", "Read the secret from get_default_keyvault() instead.")

    def list_connections(self, category=None, target=None):
        return []

    def delete_connection(self, name):
        raise unsupported("Workspace.delete_connection", "Delete the secret from get_default_keyvault() instead.")

    def diagnose_workspace(self, diagnose_parameters):
        raise unsupported("Workspace.diagnose_workspace", "Run 'runyard doctor' on the machine instead.")

    def list_keys(self):
        raise unsupported("Workspace.list_keys", _CLOUD_ONLY)

    def sync_keys(self, no_wait=False):
        """Nothing to do: Runyard stores no keys of other services."""

    def update_dependencies(self, container_registry=None, force=False):
        raise unsupported("Workspace.update_dependencies", _CLOUD_ONLY)

    def get_mlflow_tracking_uri(self, _with_auth=False):
        raise not_yet("Workspace.get_mlflow_tracking_uri")


class _AssetMembers:
    """Contents of a workspace, as mappings by name."""

    @property
    def experiments(self):
        from azureml.core.experiment import Experiment

        return {experiment.name: experiment for experiment in Experiment.list(self)}

    @property
    def compute_targets(self):
        from azureml.core.compute import ComputeTarget

        return {target.name: target for target in ComputeTarget.list(self)}

    @property
    def datastores(self):
        from azureml.core.datastore import all_datastores

        return all_datastores(self)

    @property
    def datasets(self):
        from azureml.core.dataset import Dataset

        return Dataset.get_all(self)

    @property
    def environments(self):
        from azureml.core.environment import Environment

        return Environment.list(self)

    @property
    def models(self):
        from azureml.core.model import Model

        return {model.name: model for model in Model.list(self, latest=True)}

    @property
    def images(self):
        from azureml.core.image import Image

        newest_last = reversed(Image.list(self))
        return {image.name: image for image in newest_last}

    @property
    def webservices(self):
        from azureml.core.webservice import Webservice

        return {service.name: service for service in Webservice.list(self)}

    def get_default_datastore(self):
        from azureml.core.datastore import Datastore

        return Datastore.get_default(self)

    def set_default_datastore(self, name):
        from azureml.core.datastore import Datastore

        Datastore.get(self, name).set_as_default()

    def get_default_keyvault(self):
        from azureml.core.keyvault import Keyvault

        return Keyvault(self)

    def get_default_compute_target(self, type):
        """Cluster with the conventional name for "CPU" or "GPU", or None."""
        names = {"CPU": self.DEFAULT_CPU_CLUSTER_NAME, "GPU": self.DEFAULT_GPU_CLUSTER_NAME}
        return self.compute_targets.get(names.get(str(type).upper()))

    def get_run(self, run_id):
        from azureml.core.run import Run

        return Run.get(self, run_id)


class Workspace(_AssetMembers, _UnsupportedMembers):
    """A named workspace of the service; the constructor creates it if it does not exist."""

    DEFAULT_CPU_CLUSTER_NAME = "cpu-cluster"
    DEFAULT_GPU_CLUSTER_NAME = "gpu-cluster"

    def __init__(self, subscription_id, resource_group, workspace_name, auth=None, _location=None,
                 _disable_service_check=False, _workspace_id=None, sku="basic", tags=None, _cloud="AzureCloud",
                 _record=None):
        import urllib.request  # noqa: F401  v1 loads it, and scripts lean on that

        _check_name(workspace_name)
        self._auth_object = auth
        self._client = client()
        self._record = _record or _ensure(self._client, workspace_name, {
            "subscription_id": subscription_id, "resource_group": resource_group, "location": _location,
            "tags": tags or {}, "exist_ok": True})

    @staticmethod
    def from_config(path=None, auth=None, _logger=None, _file_name=None):
        """Workspace of the config file that is found; otherwise inside a run the run's workspace, else the local
        default.

        `path` may be a file, or the folder where the search begins. Raises UserErrorException for a path that does not
        exist and for a file that does not name a workspace.
        """
        import os

        start = os.path.abspath(path or ".")
        if not os.path.exists(start):
            raise UserErrorException("The path {!r} given to Workspace.from_config does not exist. Give a config.json "
                                     "or a folder to search from.".format(path))
        found = start if os.path.isfile(start) else configfile.find(start, _file_name)
        return _local_default(auth) if found is None else _configured(found, auth)

    @staticmethod
    def create(name, auth=None, subscription_id=None, resource_group=None, location=None, create_resource_group=True,
               sku="basic", tags=None, friendly_name=None, storage_account=None, key_vault=None, app_insights=None,
               container_registry=None, adb_workspace=None, primary_user_assigned_identity=None, cmk_keyvault=None,
               resource_cmk_uri=None, hbi_workspace=False, default_cpu_compute_target=None,
               default_gpu_compute_target=None, private_endpoint_config=None, private_endpoint_auto_approval=True,
               exist_ok=False, show_output=True, user_assigned_identity_for_cmk_encryption=None,
               system_datastores_auth_mode="accessKey", v1_legacy_mode=None):
        """Create a workspace. If the name exists, raises WorkspaceException, or returns it with `exist_ok`."""
        _check_name(name)
        facts = {"subscription_id": subscription_id, "resource_group": resource_group, "location": location,
                 "friendly_name": friendly_name, "tags": tags or {}, "exist_ok": bool(exist_ok)}
        try:
            record = _ensure(client(), name, facts)
        except AlreadyExists as error:
            raise WorkspaceException("There is a workspace {!r} already. Pass exist_ok=True to use it, or choose "
                                     "another name.".format(name), inner_exception=error)
        if show_output:
            print("Workspace {} is ready.".format(name))
        return _of_record(record, auth)

    @staticmethod
    def get(name, auth=None, subscription_id=None, resource_group=None, location=None, cloud="AzureCloud", id=None):
        """Return the workspace with that name. Raises WorkspaceException if there is none."""
        _check_name(name)
        try:
            record = client().get("/workspaces/" + quoted(name))
        except NotFound as error:
            known = ", ".join(sorted(repr(other["name"]) for other in _records()))
            raise WorkspaceException(
                "There is no workspace {!r}. Known: {}. Make it with Workspace.create(name={!r}).".format(
                    name, known or "none", name), inner_exception=error)
        return _of_record(record, auth)

    @staticmethod
    def list(subscription_id=None, auth=None, resource_group=None):
        """Workspaces as `{name: [Workspace]}`, filtered by subscription and group."""
        found = {}
        for record in _records():
            if subscription_id in (None, record["subscription_id"]) and \
                    resource_group in (None, record["resource_group"]):
                found.setdefault(record["name"], []).append(_of_record(record, auth))
        return found

    @staticmethod
    def setup():
        """Workspace of the nearest config file, without prompting; see from_config."""
        return Workspace.from_config()

    def write_config(self, path=None, file_name=None):
        """Write `.azureml/config.json` below `path`, for from_config."""
        configfile.write(path or ".", file_name, self.subscription_id, self.resource_group, self.name)

    def get_details(self):
        scope = "/subscriptions/{}/resourceGroups/{}/providers".format(self.subscription_id, self.resource_group)
        record = self._record
        return {
            "id": "{}/Microsoft.MachineLearningServices/workspaces/{}".format(scope, self.name),
            "name": self.name, "location": self.location, "type": "Microsoft.MachineLearningServices/workspaces",
            "tags": self.tags, "sku": self.sku, "workspaceid": record["id"],
            "friendlyName": record.get("friendly_name") or self.name, "description": record.get("description", ""),
            "creationTime": record["created_at"], "containerRegistry": None, "keyVault": None,
            "applicationInsights": None, "storageAccount": None, "discoveryUrl": self.discovery_url,
            "identityType": None, "provisioningState": "Succeeded"}

    def update(self, friendly_name=None, description=None, tags=None, image_build_compute=None,
               service_managed_resources_settings=None, primary_user_assigned_identity=None,
               allow_public_access_when_behind_vnet=None, v1_legacy_mode=None):
        """Change the description of the workspace; returns the details."""
        given = {"friendly_name": friendly_name, "description": description, "tags": tags}
        changes = {key: value for key, value in given.items() if value is not None}
        self._record = _ensure(self._client, self.name, dict(changes, exist_ok=True))
        return self.get_details()

    def delete(self, delete_dependent_resources=False, no_wait=False):
        """Delete the workspace and its contents."""
        self._client.delete("/workspaces/" + quoted(self.name))

    @property
    def name(self):
        return self._record["name"]

    @property
    def subscription_id(self):
        return self._record["subscription_id"]

    @property
    def resource_group(self):
        return self._record["resource_group"]

    @property
    def location(self):
        return self._record["location"]

    @property
    def sku(self):
        return "Basic"

    @property
    def tags(self):
        return dict(self._record.get("tags") or {})

    @property
    def discovery_url(self):
        return self._client.transport.address + "/discovery"

    @property
    def service_context(self):
        return self._client

    @property
    def _workspace_id(self):
        return self._record["id"]

    @property
    def _workspace_name(self):
        return self.name

    @property
    def _auth(self):
        return self._auth_object

    def _path(self, *parts):
        return "/workspaces/" + "/".join(quoted(part) for part in (self.name,) + parts)

    def __repr__(self):
        return "Workspace.create(name={!r}, subscription_id={!r}, resource_group={!r})".format(
            self.name, self.subscription_id, self.resource_group)


def nearest_workspace():
    """Workspace of this run, of the config file found from here, or the local default; prints nothing."""
    own = _run_workspace()
    if own:
        return Workspace(None, None, own)
    found = configfile.find(".", None)
    return _configured(found, None) if found else Workspace(_LOCAL, _LOCAL, _DEFAULT_NAME, _location=_LOCAL)


def _configured(path, auth):
    try:
        subscription_id, resource_group, name = configfile.read(path)
    except RunyardError as error:
        raise translated(error)
    return Workspace(subscription_id, resource_group, name, auth=auth)


def _ensure(service, name, facts):
    """Create the workspace if needed. Inside a run it must exist: a run's token cannot create one."""
    if _run_workspace() and facts["exist_ok"]:
        return service.get("/workspaces/" + quoted(name))
    put = service.put if facts["exist_ok"] else service.put_once
    return put("/workspaces/" + quoted(name), {key: value for key, value in facts.items() if value is not None})


def _records():
    return client().get("/workspaces")["workspaces"]


def _of_record(record, auth):
    return Workspace(record["subscription_id"], record["resource_group"], record["name"], auth=auth, _record=record)


def _run_workspace():
    """Name of the workspace of the run that this process is part of; None outside a run."""
    import os

    return os.environ.get("AZUREML_ARM_WORKSPACE_NAME") if "RUNYARD_ATTEMPT" in os.environ else None


def _local_default(auth):
    own = _run_workspace()
    if own:
        return Workspace(None, None, own, auth=auth)
    import os

    which = "workspace {!r} of {}" if os.environ.get("RUNYARD_URL") else "the local default workspace {!r}"
    print("No config.json was found: using {}.".format(which.format(_DEFAULT_NAME, os.environ.get("RUNYARD_URL"))))
    return Workspace(_LOCAL, _LOCAL, _DEFAULT_NAME, auth=auth, _location=_LOCAL)


def _check_name(name):
    if not isinstance(name, str) or not _NAME.match(name):
        raise UserErrorException("The workspace name {!r} is not valid. It has 3 to 33 characters: letters, digits, "
                                 "'-' and '_', and begins with a letter or digit.".format(name))


# Names that the original module imports, and that v1 code imports from here.
lazy_names(__name__, {
    "AmlCompute": "azureml.core.compute",
    "ComputeTarget": "azureml.core.compute",
    "Dataset": "azureml.core.dataset",
    "Image": "azureml.core.image",
    "InteractiveLoginAuthentication": "azureml.core.authentication",
    "Keyvault": "azureml.core.keyvault",
    "LinkedService": "azureml.core.linked_service",
    "Model": "azureml.core.model",
    "Webservice": "azureml.core.webservice",
})
