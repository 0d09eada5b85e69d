"""What every web service has, wherever the user said it is to run."""
from abc import ABC

from azureml._service import webservice_errors
from azureml._times import time_of, written_time
from azureml.core.image import Image
from azureml.core.model import Model
from azureml.core.webservice import _records
from azureml.core.webservice._aci_configuration import ACI_WEBSERVICE_TYPE  # noqa: F401
from azureml.core.webservice._aks_configuration import AKS_ENDPOINT_TYPE, AKS_WEBSERVICE_TYPE  # noqa: F401
from azureml.core.webservice._configuration import WebserviceDeploymentConfiguration  # noqa: F401
from azureml.core.webservice._replica_parts import (  # noqa: F401
    AutoScaler, DataCollection, LivenessProbeRequirements, WebServiceAccessToken)
from azureml.core.webservice.container_resource_requirements import ContainerResourceRequirements  # noqa: F401
from azureml.exceptions import WebserviceException

LOCAL_WEBSERVICE_TYPE = "Local"
UNKNOWN_WEBSERVICE_TYPE = "Unknown"
ALL_WEBSERVICE_TYPES = [ACI_WEBSERVICE_TYPE, AKS_ENDPOINT_TYPE, AKS_WEBSERVICE_TYPE, "IOT", "MIR"]
CLOUD_DEPLOYABLE_IMAGE_FLAVORS = ["WebApiContainer", "AccelContainer"]
SERVICE_REQUEST_OPERATION_CREATE = "Create"
SERVICE_REQUEST_OPERATION_UPDATE = "Update"
SERVICE_REQUEST_OPERATION_DELETE = "Delete"
MMS_SYNC_TIMEOUT_SECONDS = 80
MMS_RESOURCE_CHECK_SYNC_TIMEOUT_SECONDS = 15
MMS_SERVICE_EXIST_CHECK_SYNC_TIMEOUT_SECONDS = 5
MMS_SERVICE_VALIDATE_OPERATION_TIMEOUT_SECONDS = 30


class Webservice(ABC):
    """A model that answers over HTTP. Webservice(workspace, name) gives the object of its concrete class."""

    _types = {}
    _webservice_type = UNKNOWN_WEBSERVICE_TYPE
    _told_notes = ()

    def __new__(cls, workspace, name):
        if workspace is None or not name:
            return object.__new__(cls)
        return cls._of_record(workspace, _records.get_record(workspace, name))

    def __init__(self, workspace, name):
        pass

    @staticmethod
    def check_for_existing_webservice(workspace, name, overwrite=False, request_func=None, check_func=None):
        """Raise WebserviceException where the name is taken, unless it may be overwritten."""
        from azureml.core.webservice._configuration import check_name
        check_name(name)
        if not overwrite and _records.find_record(workspace, name) is not None:
            raise WebserviceException("There is a web service %r already. Pass overwrite=True to replace it, or choose "
                                      "another name." % name)

    @staticmethod
    def deploy(workspace, name, model_paths, image_config, deployment_config=None, deployment_target=None,
               overwrite=False):
        """Register each of the local model_paths under the name of its file or folder, and deploy them."""
        import os
        models = [Model.register(workspace, path, os.path.basename(os.path.abspath(path)))
                  for path in model_paths or []]
        return Webservice.deploy_from_model(workspace, name, models, image_config, deployment_config,
                                            deployment_target, overwrite)

    @staticmethod
    def deploy_from_model(workspace, name, models, image_config, deployment_config=None, deployment_target=None,
                          overwrite=False):
        from azureml.core.webservice._deploying import deploy
        return deploy(workspace, name, models, image_config, deployment_config, deployment_target, overwrite)

    @staticmethod
    def deploy_from_image(workspace, name, image, deployment_config=None, deployment_target=None, overwrite=False):
        from azureml.core.webservice._deploying import deploy_image
        return deploy_image(workspace, name, image, deployment_config, deployment_target, overwrite)

    @staticmethod
    def deploy_local_from_model(workspace, name, models, image_config, deployment_config=None, wait=False):
        """Deploy as a LocalWebservice; with `wait`, return when it answers."""
        from azureml.core.webservice.local import LocalWebservice
        service = Webservice.deploy_from_model(workspace, name, models, image_config,
                                               deployment_config or LocalWebservice.deploy_configuration())
        if wait:
            service.wait_for_deployment()
        return service

    @staticmethod
    def list(workspace, compute_type=None, image_name=None, image_id=None, model_name=None, model_id=None, tags=None,
             properties=None, image_digest=None):
        """Web services of the workspace. tags and properties: 'key', ['key'] or [['key', 'value']]."""
        known = ALL_WEBSERVICE_TYPES + [LOCAL_WEBSERVICE_TYPE]
        if compute_type and compute_type.upper() not in [one.upper() for one in known]:
            raise WebserviceException("compute_type must be one of %s, got %r." % (", ".join(known), compute_type))
        found = _records.list_records(workspace, compute_type, image_name, image_id, model_name, model_id, tags,
                                      properties)
        services = [Webservice._of_record(workspace, record) for record in found]
        wanted = (compute_type or "").upper()
        return [one for one in services if not wanted or one.compute_type.upper() == wanted]

    def wait_for_deployment(self, show_output=False, timeout_sec=None):
        """Return when the newest deployment or update answers.

        WebserviceException with the cause, the traceback and the last lines of the log where it failed, and
        where it takes longer than timeout_sec.
        """
        from azureml.core.webservice._waiting import wait_until_deployed
        wait_until_deployed(self, show_output, timeout_sec)

    def update_deployment_state(self):
        """Bring every attribute up to date."""
        self._take(self.workspace, _records.get_record(self.workspace, self.name))

    def run(self, input):
        raise NotImplementedError("A web service of type %s cannot be called from here." % self.compute_type)

    def update(self, *args):
        raise NotImplementedError("A web service of type %s cannot be updated from here." % self.compute_type)

    def get_logs(self, num_lines=5000, init=False):
        """The last lines of what its script, its workers and its deployment wrote."""
        with webservice_errors():
            return self._client.read(self._path + "/logs", lines=num_lines).decode("utf-8", "replace")

    def get_keys(self):
        """(primary, secondary)."""
        with webservice_errors():
            found = self._client.get(self._path + "/keys")
        return found["primary"], found["secondary"]

    def regen_key(self, key, set_key=None):
        """Make the "Primary" or "Secondary" key another one, or `set_key`. The old one is refused from then on."""
        if not isinstance(key, str) or key.capitalize() not in ("Primary", "Secondary"):
            raise WebserviceException("key must be 'Primary' or 'Secondary', got %r." % (key,))
        with webservice_errors():
            self._client.post(self._path + "/keys", {"key": key.capitalize(), "value": set_key})
        self._session_key = None

    def get_token(self):
        raise NotImplementedError("A web service of type %s has no tokens." % self.compute_type)

    def delete(self):
        """Its port no longer answers and its processes end. The object stays, in state Deleting."""
        with webservice_errors():
            self._client.delete(self._path)
        self.state = "Deleting"

    def serialize(self):
        return {"name": self.name, "description": self.description, "tags": self.tags, "properties": self.properties,
                "state": self.state, "createdTime": written_time(self.created_time),
                "updatedTime": written_time(self.updated_time), "error": self.error, "computeType": self.compute_type,
                "workspaceName": self.workspace.name, "imageId": self.image_id, "imageDigest": self.image_digest,
                "createdBy": self.created_by, "authEnabled": self.auth_enabled,
                "models": list(self._record["models"])}

    @classmethod
    def deserialize(cls, workspace, webservice_payload):
        """The web service that serialize() was called on, as it is now."""
        return cls(workspace, webservice_payload["name"])

    def __repr__(self):
        return "%s(workspace=%r, name=%s, image_id=%s, compute_type=%s, state=%s, scoring_uri=%s, tags=%s, " \
               "properties=%s, created_by=%s)" % (
                   type(self).__name__, self.workspace, self.name, self.image_id, self.compute_type, self.state,
                   self.scoring_uri, self.tags, self.properties, self.created_by)

    @property
    def image(self):
        """The image that it was deployed from, or None."""
        return Image(self.workspace, id=self.image_id) if self.image_id else None

    @classmethod
    def _of_record(cls, workspace, record):
        found = Webservice._types.get(_records.type_of(record), Webservice._types[UNKNOWN_WEBSERVICE_TYPE])
        if not issubclass(found, cls):
            raise WebserviceException("The web service %r is of type %s, so it is no %s. Use Webservice(workspace, "
                                      "%r)." % (record["name"], record["type"], cls.__name__, record["name"]))
        made = object.__new__(found)
        made._take(workspace, record)
        return made

    def _take(self, workspace, record):
        self.workspace, self._record = workspace, record
        self._session_key = None
        self.name, self.compute_type = record["name"], self._webservice_type
        self.state, self.error = record["state"], _records.error_of(record)
        self.description = record.get("description")
        self.tags, self.properties = dict(record.get("tags") or {}), dict(record.get("properties") or {})
        self.created_time, self.updated_time = time_of(record["created_at"]), time_of(record["updated_at"])
        self.created_by, self.image_digest = None, None
        self.image_id = record.get("image_id")
        self.auth_enabled, self.token_auth_enabled = record["auth_enabled"], record["token_auth_enabled"]
        self._take_addresses(record)

    def _take_addresses(self, record):
        self.scoring_uri, self.swagger_uri = record["scoring_uri"], record["swagger_uri"]

    def _building_path(self, record):
        """Where the log is that a deployment writes to now."""
        return self._path

    @property
    def _client(self):
        return self.workspace._client

    @property
    def _path(self):
        return self.workspace._path("services", self.name)
