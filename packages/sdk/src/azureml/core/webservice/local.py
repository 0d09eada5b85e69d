from azureml._service import webservice_errors
from azureml.core.image.container import ContainerImageConfig  # noqa: F401
from azureml.core.model import InferenceConfig, Model  # noqa: F401
from azureml.core.webservice import _records
from azureml.core.webservice._records import change, changes_of
from azureml.core.webservice._configuration import check_number
from azureml.core.webservice.webservice import (  # noqa: F401
    LOCAL_WEBSERVICE_TYPE, Webservice, WebserviceDeploymentConfiguration)
from azureml.exceptions import WebserviceException

DOCKER_IMAGE_APP_ROOT_DIR = "/var/azureml-app"
DOCKER_IMAGE_HTTP_PORT = 5001
DOCKER_IMAGE_MQTT_PORT = 8883
MODEL_PACKAGE_ASSETS_DIR = "azureml-app"
MODEL_PACKAGE_MODELS_DIR = "azureml-models"
WEBSERVICE_SCORE_PATH = "/score"
WEBSERVICE_SWAGGER_PATH = "/swagger.json"
_HIGHEST_PORT = 65535


class LocalWebservice(Webservice):
    """A web service for debugging: a port of your choice, no keys, and `reload` after editing the script."""

    NETWORK_NAME = "azureml-local"
    STATE_DELETED = "deleted"
    STATE_DEPLOYING = "deploying"
    STATE_FAILED = "failed"
    STATE_RUNNING = "running"
    STATE_UNKNOWN = "unknown"

    _webservice_type = LOCAL_WEBSERVICE_TYPE

    def __new__(cls, *args, **kwargs):
        return object.__new__(cls)

    def __init__(self, workspace, name, must_exist=True):
        record = _records.get_record(workspace, name) if must_exist else _records.find_record(workspace, name)
        if record is not None and record["type"] != LOCAL_WEBSERVICE_TYPE:
            raise WebserviceException("The web service %r is of type %s, not local. Use Webservice(workspace, %r)." % (
                name, record["type"], name))
        self._take(workspace, record or _blank_record(name))

    @staticmethod
    def deploy_configuration(port=None):
        """Configuration with a port of this machine; any free one by default."""
        return LocalWebserviceDeploymentConfiguration(port)

    @staticmethod
    def list(workspace, model_name=None, model_id=None, all=None):
        """Running ones; with `all`, every one of the workspace."""
        found = [Webservice._of_record(workspace, record) for record in _records.list_records(
            workspace, LOCAL_WEBSERVICE_TYPE, model_name=model_name, model_id=model_id)]
        return [one for one in found if all or one.state == LocalWebservice.STATE_RUNNING]

    @property
    def port(self):
        """Raises WebserviceException while it has none."""
        return self._of_running("port")

    @property
    def scoring_uri(self):
        return self._of_running("scoring_uri")

    @property
    def swagger_uri(self):
        return self._of_running("swagger_uri")

    def wait_for_deployment(self, show_output=False):
        """Wait until the newest deployment, update or reload answers. Raises WebserviceException if it failed."""
        from azureml.core.webservice.webservice import wait_until_deployed
        wait_until_deployed(self, show_output)

    def update_deployment_state(self, must_exist=False):
        """Refresh every attribute; a deleted one gets state 'deleted', or raises with must_exist."""
        record = _records.get_record(self.workspace, self.name) if must_exist else _records.find_record(
            self.workspace, self.name)
        if record is None:
            self.state = self.STATE_DELETED
        else:
            self._take(self.workspace, record)

    def run(self, input_data):
        """POST the text or bytes as JSON; return the decoded response. Waits for a deployment or reload in progress."""
        from azureml.core.webservice.webservice import ask
        from azureml.core.webservice.webservice import wait_until_deployed
        if not _records.has_ended(self._record):
            wait_until_deployed(self)
        return ask(self, input_data)

    def reload(self, wait=False):
        """Restart with the script as it is on disk, or if it is not on this machine, with the deployed files."""
        from azureml.core._inference_config import code_on_disk
        code = code_on_disk(self._record.get("inference"))
        if code is not None and code.has_changed:
            change(self, code)
        else:
            with webservice_errors():
                self._take(self.workspace, self._client.post(self._path + "/reload"))
        if wait:
            self.wait_for_deployment()

    def update(self, models=None, image_config=None, deployment_config=None, wait=False, inference_config=None):
        """Change the given settings. The old revision answers until the new one is ready."""
        settings = deployment_config._to_wire() if deployment_config is not None else None
        change(self, **changes_of(self, models=models, inference_config=inference_config or image_config,
                                  settings=settings))
        if wait:
            self.wait_for_deployment()

    def get_logs(self, num_lines=5000, raw=False):
        """Last lines of its log; bytes with `raw`."""
        text = super(LocalWebservice, self).get_logs(num_lines)
        return text.encode("utf-8") if raw else text

    def delete(self, delete_cache=True, delete_image=False, delete_volume=True):
        """Close its port and end its processes. There is no image or volume to keep."""
        super(LocalWebservice, self).delete()
        self.state = self.STATE_DELETED

    def deploy_to_cloud(self, name=None, deployment_config=None, deployment_target=None):
        """Deploy the same models and script as an AciWebservice or AksWebservice, by default as NAME-cloud: both are on
        this machine, so names must differ."""
        from azureml.core.webservice.webservice import deploy_stored
        return deploy_stored(self.workspace, name or self.name + "-cloud", self._record["models"],
                             self._record.get("inference"), deployment_config, deployment_target, False)

    def get_keys(self):
        raise NotImplementedError("A LocalWebservice has no keys: it answers without one.")

    def regen_key(self, key):
        raise NotImplementedError("A LocalWebservice has no keys: it answers without one.")

    def get_token(self):
        raise NotImplementedError("A LocalWebservice has no tokens: it answers without one.")

    def serialize(self):
        written = super(LocalWebservice, self).serialize()
        written.update(port=self._record.get("port") or None, scoringUri=self._record.get("scoring_uri"))
        return written

    @classmethod
    def deserialize(cls, workspace, webservice_payload):
        return cls(workspace, webservice_payload["name"])

    def __repr__(self):
        return "LocalWebservice(workspace=%r, name=%s, state=%s, port=%s)" % (
            self.workspace, self.name, self.state, self._record.get("port") or None)

    def _take(self, workspace, record):
        super(LocalWebservice, self)._take(workspace, record)
        self.state = _local_state(record)

    def _take_addresses(self, record):
        """Do nothing: addresses are properties here."""

    def _of_running(self, field):
        value = self._record.get(field)
        if not value:
            raise WebserviceException("The web service %r has no %s yet (state %s). Call wait_for_deployment() "
                                      "first." % (self.name, field, self.state))
        return value

    def _finished_line(self, outcome):
        return "Local webservice is running at http://localhost:%s" % self._record["port"] if outcome == "Succeeded" \
            else "Local webservice is not running: %s" % outcome


class LocalWebserviceDeploymentConfiguration(WebserviceDeploymentConfiguration):
    """Settings of a LocalWebservice."""

    def __init__(self, port=None):
        super(LocalWebserviceDeploymentConfiguration, self).__init__(LOCAL_WEBSERVICE_TYPE)
        self.port = port
        self.validate_configuration()

    def validate_configuration(self):
        check_number("port", self.port, at_least=1, whole=True)
        if self.port is not None and self.port > _HIGHEST_PORT:
            raise WebserviceException("port must be at most %d, got %r." % (_HIGHEST_PORT, self.port))

    def print_deploy_configuration(self):
        self._print(("port",))


_STATES = {"Healthy": LocalWebservice.STATE_RUNNING, "Failed": LocalWebservice.STATE_FAILED,
           "Transitioning": LocalWebservice.STATE_DEPLOYING, "Deleting": LocalWebservice.STATE_DELETED,
           "Unhealthy": LocalWebservice.STATE_FAILED}


def _local_state(record):
    if record["state"] == "Healthy" and not _records.has_ended(record):
        return LocalWebservice.STATE_DEPLOYING
    return _STATES.get(record["state"], LocalWebservice.STATE_UNKNOWN)


def _blank_record(name):
    return {"name": name, "type": LOCAL_WEBSERVICE_TYPE, "state": LocalWebservice.STATE_UNKNOWN, "models": [],
            "config": {}, "created_at": None, "updated_at": None, "auth_enabled": False, "token_auth_enabled": False,
            "revision": 0, "wanted_revision": 0, "failed_revision": 0}


Webservice._types[LOCAL_WEBSERVICE_TYPE] = LocalWebservice
