"""Workspaces: the rooms that experiments, models, data and compute live in."""

import re

from azureml._lazy import lazy_names
from azureml._service import client, translated
from azureml._version import VERSION  # noqa: F401
from azureml.core._workspace_absent import WorkspaceAbsent
from azureml.core._workspace_assets import WorkspaceAssets
from azureml.exceptions import ProjectSystemException, UserErrorException, WorkspaceException  # noqa: F401
from runyard_sdk import configfile
from runyard_sdk.client import quoted
from runyard_sdk.errors import AlreadyExists, NotFound, RunyardError

WORKSPACE_DEFAULT_BLOB_STORE_NAME = "workspaceblobstore"
_DEFAULT_NAME = "default"
_LOCAL = "local"
_NAME = re.compile(r"^[a-zA-Z0-9][\w\-]{2,32}\Z")
__all__ = ["Workspace"]


class Workspace(WorkspaceAssets, WorkspaceAbsent):
    """A named workspace of the service. One that does not exist yet is made by its constructor."""

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
        """The workspace of the config file that is found; where the search finds none, the run's own inside a run,
        else the local default one.

        `path` may be a file, or the folder where the search begins. Raises UserErrorException for a path that
        is not there and for a file that does not name a workspace.
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
        """A new workspace. One of that name raises WorkspaceException unless `exist_ok`, when it is returned."""
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
        """The workspace of that name. Raises WorkspaceException where there is none."""
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
        """All workspaces as `{name: [Workspace]}`, those of the given subscription and group."""
        found = {}
        for record in _records():
            if subscription_id in (None, record["subscription_id"]) and \
                    resource_group in (None, record["resource_group"]):
                found.setdefault(record["name"], []).append(_of_record(record, auth))
        return found

    @staticmethod
    def setup():
        """The workspace that the nearest config file names, asking nothing; see from_config."""
        return Workspace.from_config()

    def write_config(self, path=None, file_name=None):
        """Write `.azureml/config.json` below `path`, which from_config finds again."""
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
        """Change what the workspace says of itself; returns the details."""
        given = {"friendly_name": friendly_name, "description": description, "tags": tags}
        changes = {key: value for key, value in given.items() if value is not None}
        self._record = _ensure(self._client, self.name, dict(changes, exist_ok=True))
        return self.get_details()

    def delete(self, delete_dependent_resources=False, no_wait=False):
        """Remove the workspace and what it holds from the service."""
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
    """The workspace of this run, of the config file that is found from here, or the local default one, quietly."""
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
    """Inside a run, whose token makes no workspaces, it must be there."""
    if _run_workspace() and facts["exist_ok"]:
        return service.get("/workspaces/" + quoted(name))
    put = service.put if facts["exist_ok"] else service.put_once
    return put("/workspaces/" + quoted(name), {key: value for key, value in facts.items() if value is not None})


def _records():
    return client().get("/workspaces")["workspaces"]


def _of_record(record, auth):
    return Workspace(record["subscription_id"], record["resource_group"], record["name"], auth=auth, _record=record)


def _run_workspace():
    """The name of the workspace that this process is a run of; None outside a run."""
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


# Names that v1 code finds here because the original imported them here.
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
