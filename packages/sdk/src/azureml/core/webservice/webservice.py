"""Web services of any type: base class, deployment, waiting for it, and requests to its scoring URL."""

import json
import sys
import time
from abc import ABC

from azureml._assets import as_texts, keys_of, parse_time, time_text
from azureml._service import webservice_errors
from azureml.core._inference_config import check_code, send_with_code
from azureml.core._model_references import model_ids, models_of, no_code_model
from azureml.core.environment import Environment
from azureml.core.image import Image
from azureml.core.model import Model
from azureml.core.webservice import _records
from azureml.core.webservice._configuration import (  # noqa: F401
    ACI_WEBSERVICE_TYPE, AKS_ENDPOINT_TYPE, AKS_WEBSERVICE_TYPE, AutoScaler, DataCollection, LivenessProbeRequirements,
    WebServiceAccessToken, WebserviceDeploymentConfiguration, check_name)
from azureml.core.webservice._records import change, find_record, get_record, has_ended, has_failed
from azureml.core.webservice.container_resource_requirements import ContainerResourceRequirements  # noqa: F401
from azureml.exceptions import WebserviceException
from runyard_sdk.submitter import submitter_facts

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
_DOT_SECONDS = 1.0
_STREAMED_STEP = "environment"
_REQUEST_SECONDS = 600
_UNAUTHORIZED = 401


class Webservice(ABC):
    """A model served over HTTP. Webservice(workspace, name) returns an object of its concrete class."""

    _types = {}
    _webservice_type = UNKNOWN_WEBSERVICE_TYPE
    _printed_notes = ()

    def __new__(cls, workspace, name):
        if workspace is None or not name:
            return object.__new__(cls)
        return cls._of_record(workspace, _records.get_record(workspace, name))

    def __init__(self, workspace, name):
        pass

    @staticmethod
    def check_for_existing_webservice(workspace, name, overwrite=False, request_func=None, check_func=None):
        """Raise WebserviceException where the name is taken, unless `overwrite`."""
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
        return deploy(workspace, name, models, image_config, deployment_config, deployment_target, overwrite)

    @staticmethod
    def deploy_from_image(workspace, name, image, deployment_config=None, deployment_target=None, overwrite=False):
        return _deploy_image(workspace, name, image, deployment_config, deployment_target, overwrite)

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
        """Wait until the newest deployment or update answers.

        Raises WebserviceException with cause, traceback and last log lines if it fails or exceeds timeout_sec.
        """
        wait_until_deployed(self, show_output, timeout_sec)

    def update_deployment_state(self):
        """Refresh every attribute."""
        self._take(self.workspace, _records.get_record(self.workspace, self.name))

    def run(self, input):
        raise NotImplementedError("A web service of type %s cannot be called from here." % self.compute_type)

    def update(self, *args):
        raise NotImplementedError("A web service of type %s cannot be updated from here." % self.compute_type)

    def get_logs(self, num_lines=5000, init=False):
        """Last log lines of its script, workers and deployment."""
        with webservice_errors():
            return self._client.read(self._path + "/logs", lines=num_lines).decode("utf-8", "replace")

    def get_keys(self):
        """(primary, secondary)."""
        with webservice_errors():
            found = self._client.get(self._path + "/keys")
        return found["primary"], found["secondary"]

    def regen_key(self, key, set_key=None):
        """Replace the "Primary" or "Secondary" key, with `set_key` if given. The old key is rejected afterwards."""
        if not isinstance(key, str) or key.capitalize() not in ("Primary", "Secondary"):
            raise WebserviceException("key must be 'Primary' or 'Secondary', got %r." % (key,))
        with webservice_errors():
            self._client.post(self._path + "/keys", {"key": key.capitalize(), "value": set_key})
        self._session_key = None

    def get_token(self):
        raise NotImplementedError("A web service of type %s has no tokens." % self.compute_type)

    def delete(self):
        """Close its port and end its processes. The object's state is Deleting."""
        with webservice_errors():
            self._client.delete(self._path)
        self.state = "Deleting"

    def serialize(self):
        return {"name": self.name, "description": self.description, "tags": self.tags, "properties": self.properties,
                "state": self.state, "createdTime": time_text(self.created_time),
                "updatedTime": time_text(self.updated_time), "error": self.error, "computeType": self.compute_type,
                "workspaceName": self.workspace.name, "imageId": self.image_id, "imageDigest": self.image_digest,
                "createdBy": self.created_by, "authEnabled": self.auth_enabled,
                "models": list(self._record["models"])}

    @classmethod
    def deserialize(cls, workspace, webservice_payload):
        """Web service that serialize() was called on, as it is now."""
        return cls(workspace, webservice_payload["name"])

    def __repr__(self):
        return "%s(workspace=%r, name=%s, image_id=%s, compute_type=%s, state=%s, scoring_uri=%s, tags=%s, " \
               "properties=%s, created_by=%s)" % (
                   type(self).__name__, self.workspace, self.name, self.image_id, self.compute_type, self.state,
                   self.scoring_uri, self.tags, self.properties, self.created_by)

    @property
    def image(self):
        """Image that it was deployed from, or None."""
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
        self.created_time, self.updated_time = parse_time(record["created_at"]), parse_time(record["updated_at"])
        self.created_by, self.image_digest = None, None
        self.image_id = record.get("image_id")
        self.auth_enabled, self.token_auth_enabled = record["auth_enabled"], record["token_auth_enabled"]
        self._take_addresses(record)

    def _take_addresses(self, record):
        self.scoring_uri, self.swagger_uri = record["scoring_uri"], record["swagger_uri"]

    def _building_path(self, record):
        """URL path of the log of the current deployment."""
        return self._path

    @property
    def _client(self):
        return self.workspace._client

    @property
    def _path(self):
        return self.workspace._path("services", self.name)


class DeployedWebservice(Webservice):
    """Base of AciWebservice and AksWebservice."""

    def run(self, input_data):
        """POST the text or bytes as JSON; return the decoded response. Raises WebserviceException for any status but
        200."""
        return ask(self, input_data)

    def add_tags(self, tags):
        change(self, tags=as_texts(tags))

    def remove_tags(self, tags):
        change(self, tags={key: None for key in keys_of(tags)})

    def add_properties(self, properties):
        """Add properties; an existing property cannot change."""
        change(self, properties=as_texts(properties))

    @property
    def models(self):
        """Models that it serves."""
        return [Model(self.workspace, id=model_id) for model_id in self._record["models"]]

    @property
    def environment(self):
        """Environment of its scoring script; None for a model deployed without one."""
        inference = self._record.get("inference")
        return Environment._from_object(inference["environment"]) if inference else None

    def serialize(self):
        written = super(DeployedWebservice, self).serialize()
        environment, requirements = self.environment, self.container_resource_requirements
        written.update({
            "scoringUri": self.scoring_uri, "swaggerUri": self.swagger_uri,
            "appInsightsEnabled": self.enable_app_insights,
            "environment": environment._to_object() if environment is not None else None,
            "containerResourceRequirements": requirements.serialize() if requirements else None})
        return written

    def _finished_line(self, outcome):
        return '%s service creation operation finished, operation "%s"' % (self._record["type"], outcome)


def deploy(workspace, name, models, code, config=None, target=None, overwrite=False):
    """Deploy models with a scoring script (`code`: an InferenceConfig or an image's configuration), or one model by its
    framework if `code` is None. Returns at once."""
    check_name(name)
    kind = _type_for(config, target)
    found = models_of(workspace, models)
    if code is None:
        no_code_model(found)
    else:
        check_code(code)
    return _post_deployment(workspace, kind, code, config, target, {
        "name": name, "models": model_ids(found), "overwrite": bool(overwrite), "image_id": None})


def _deploy_image(workspace, name, image, config=None, target=None, overwrite=False):
    """Deploy the models and script of an image."""
    check_name(name)
    WebserviceDeploymentConfiguration.validate_image(image)
    return deploy_stored(workspace, name, image._stored_models, image._stored_inference, config, target, overwrite,
                         image.id)


def deploy_stored(workspace, name, models, inference, config, target, overwrite, image_id=None):
    """Deploy what the service already stores: model ids, and code in the form of docs/wire.md."""
    check_name(name)
    return _post_deployment(workspace, _type_for(config, target), None, config, target, {
        "name": name, "models": models, "inference": inference, "overwrite": bool(overwrite), "image_id": image_id})


def _type_for(config, target):
    """Type of the service, ACI by default. Raises WebserviceException where arguments contradict each other."""
    from azureml.core.compute import AksCompute
    if config is not None and not isinstance(config, WebserviceDeploymentConfiguration):
        raise WebserviceException("deployment_config must come from a deploy_configuration(...) call, for example "
                                  "AciWebservice.deploy_configuration(), got %r." % (config,))
    if target is not None and not isinstance(target, AksCompute):
        raise WebserviceException("deployment_target must be an AksCompute, got %r. Leave it out to deploy without a "
                                  "cluster." % (target,))
    kind = config._webservice_type if config is not None else ACI_WEBSERVICE_TYPE if target is None else None
    if target is not None and kind not in (None, AKS_WEBSERVICE_TYPE, AKS_ENDPOINT_TYPE):
        raise WebserviceException("deployment_target %r is an AKS cluster, and deployment_config is of type %s. Use "
                                  "AksWebservice.deploy_configuration(), or leave deployment_target out." % (
                                      target.name, kind))
    return kind or AKS_WEBSERVICE_TYPE


def _post_deployment(workspace, kind, code, config, target, body):
    settings = config._to_wire() if config is not None else {}
    if target is not None:
        settings["compute_target_name"] = target.name
    body.update(type=AKS_WEBSERVICE_TYPE if kind == AKS_ENDPOINT_TYPE else kind, config=settings,
                description=getattr(config, "description", None), tags=as_texts(getattr(config, "tags", None)),
                properties=as_texts(getattr(config, "properties", None)), submitter=submitter_facts())
    if kind == LOCAL_WEBSERVICE_TYPE and not body["overwrite"]:
        # As in v1, where local services are not part of the workspace: deploying one again replaces it.
        present = find_record(workspace, body["name"])
        body["overwrite"] = present is not None and present["type"] == LOCAL_WEBSERVICE_TYPE
    with webservice_errors():
        record = send_with_code(workspace._client, code, body, lambda whole: workspace._client.post(
            workspace._path("services"), whole))
    for note in record["notes"]:
        print(note)
    service = Webservice._of_record(workspace, record)
    service._printed_notes = record["notes"]
    return service


def wait_until_deployed(service, show_output=False, timeout_sec=None):
    """Wait until the newest revision answers. Raises WebserviceException if it failed or the time is over."""
    deadline = None if timeout_sec is None else time.time() + timeout_sec
    record = get_record(service.workspace, service.name)
    progress = _Progress(service) if show_output else None
    while not has_ended(record):
        left = _DOT_SECONDS if deadline is None else min(_DOT_SECONDS, deadline - time.time())
        if left <= 0:
            _finish(service, record, progress, "TimedOut")
            raise WebserviceException("The web service %r is not deployed after %s seconds (timeout_sec), current "
                                      "service state: %s%s. The deployment goes on; see get_logs()." % (
                                          service.name, timeout_sec, record["state"], _during(record["step"])))
        if progress:
            progress.show(record)
        with webservice_errors():
            record = service._client.get(service._path + "/wait", version=record["version"], timeout=left)
    _finish(service, record, progress, "Failed" if has_failed(record) else "Succeeded")
    if has_failed(record):
        raise WebserviceException(_failure_text(record))


def _failure_text(record):
    """Reason of a failed deployment: cause, next step, traceback and last log lines."""
    error = record.get("error") or {"problem": "The service did not say why."}
    text = "The deployment of web service %r failed%s, current service state: %s.\n%s" % (
        record["name"], _during(error.get("step")), record["state"], error["problem"])
    if error.get("hint"):
        text += "\n" + error["hint"]
    if record["revision"]:
        text += "\nThe version that was deployed before answers on."
    traceback, logs = (error.get("traceback") or "").strip(), (error.get("logs") or "").strip()
    if traceback and traceback not in logs:
        text += "\n\n" + traceback
    if logs:
        text += "\n\nThe last lines of its log (all of it: service.get_logs()):\n" + logs
    return text


def _during(step):
    return " (step: %s)" % step if step else ""


def _finish(service, record, progress, outcome):
    service._take(service.workspace, record)
    if progress:
        progress.finish(record, outcome)


class _Progress(object):
    """Prints v1's lines, `Running.....` and the outcome; for a slow environment build its log too."""

    def __init__(self, service):
        self._service, self._printed_notes = service, list(service._printed_notes)
        self._log_offset, self._is_streaming, self._at_line_start = None, False, True
        self._log_path = service._path

    def show(self, record):
        self._print_new_notes(record)
        self._print_build_log(record)
        self._write("." if not self._at_line_start else "Running.")
        self._at_line_start = False

    def finish(self, record, outcome):
        self._print_new_notes(record)
        self._end_streaming()
        self._write(("Running" if self._at_line_start else "") + "\n" + outcome + "\n")
        self._write(self._service._finished_line(outcome) + "\n")

    def _print_build_log(self, record):
        """Print the build log from the second poll on, so that a cached environment adds no line."""
        if record["step"] != _STREAMED_STEP:
            self._end_streaming()
        elif self._log_offset is None:
            self._log_path = self._service._building_path(record)
            self._log_offset = self._end_of_log() if record["revision"] else 0
        else:
            self._is_streaming = True
            self._stream_log()

    def _end_streaming(self):
        if self._is_streaming:
            self._stream_log()
            self._is_streaming = False

    def _print_new_notes(self, record):
        for note in record["notes"]:
            if note not in self._printed_notes:
                self._printed_notes.append(note)
                self._print_lines(note + "\n")

    def _end_of_log(self):
        """Offset where the update's log begins: earlier lines belong to the revision that answers now."""
        return self._read_log(-1)[1]

    def _stream_log(self):
        content, self._log_offset = self._read_log(self._log_offset)
        lines = content.decode("utf-8", "replace").splitlines()
        new_lines = [line for line in lines if not any(note in line for note in self._printed_notes)]
        if new_lines:
            self._print_lines("\n".join(new_lines))

    def _read_log(self, offset):
        address = "%s/logs?offset=%d" % (self._log_path, offset)
        with webservice_errors(), self._service._client.transport.stream(address) as answer:
            return answer.read(), int(answer.getheader("X-Runyard-Offset", 0))

    def _print_lines(self, text):
        if not self._at_line_start:
            self._write("\n")
            self._at_line_start = True
        self._write(text if text.endswith("\n") else text + "\n")

    def _write(self, text):
        sys.stdout.write(text)
        sys.stdout.flush()


def ask(service, input_data):
    """POST the text or bytes as JSON to scoring_uri; return the decoded response."""
    if not service.scoring_uri:
        raise WebserviceException("The web service %r has no scoring_uri yet (state %s). Call wait_for_deployment() "
                                  "first." % (service.name, service.state))
    body = _bytes_of(input_data)
    status, headers, content = _post_request(service, body)
    if status == _UNAUTHORIZED and service._session_key:
        service._session_key = None  # the key may have been regenerated
        status, headers, content = _post_request(service, body)
    if status != 200:
        raise WebserviceException(
            "Received bad response from service %r. More information can be found by calling get_logs() on it.\n"
            "Response Code: %s\nHeaders: %s\nContent: %s" % (
                service.name, status, headers, content.decode("utf-8", "replace")), status_code=status)
    try:
        return json.loads(content.decode("utf-8"))
    except ValueError:
        raise WebserviceException("The web service %r answered with %s, which is not JSON. Ask scoring_uri with an "
                                  "HTTP client of your own: %s" % (
                                      service.name, headers.get("content-type"), service.scoring_uri)) from None


def _bytes_of(input_data):
    if isinstance(input_data, str):
        return input_data.encode("utf-8")
    if isinstance(input_data, (bytes, bytearray)):
        return bytes(input_data)
    raise WebserviceException("input_data must be text or bytes, such as json.dumps({'data': array.tolist()}), "
                              "got %s." % type(input_data).__name__)


def _post_request(service, body):
    from http.client import HTTPException
    from urllib.parse import urlsplit
    address = urlsplit(service.scoring_uri)
    headers = {"Content-Type": "application/json"}
    if service.auth_enabled or service.token_auth_enabled:
        headers["Authorization"] = "Bearer " + _key_of(service)
    try:
        connection = _connection(address, service)
        try:
            connection.request("POST", address.path, body=body, headers=headers)
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()
    except (OSError, HTTPException) as error:
        raise _unanswered(service, error) from None


def _unanswered(service, error):
    """Reason why nobody answers, from the record; else the connection error."""
    record = find_record(service.workspace, service.name)
    if record is None:
        return WebserviceException("The web service %r is not there any more." % service.name, status_code=404)
    if has_failed(record):
        return WebserviceException(_failure_text(record))
    return WebserviceException("The web service %r at %s does not answer: %s. Its state is %s; see get_logs()." % (
        service.name, service.scoring_uri, error, record["state"]))


def _key_of(service):
    if not service._session_key:
        service._session_key = service.get_token()[0] if service.token_auth_enabled else service.get_keys()[0]
    return service._session_key


def _connection(address, service):
    from http.client import HTTPConnection, HTTPSConnection
    if address.scheme != "https":
        return HTTPConnection(address.hostname, address.port, timeout=_REQUEST_SECONDS)
    import ssl
    trusted = ssl.create_default_context(cadata=service._record["config"].get("ssl_cert_pem"))
    trusted.check_hostname = False  # the certificate is issued for ssl_cname, but the service is on this machine
    return HTTPSConnection(address.hostname, address.port, timeout=_REQUEST_SECONDS, context=trusted)
