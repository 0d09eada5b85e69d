from enum import Enum

from azureml._assets import as_texts, parse_time
from azureml._service import webservice_errors
from azureml.core._model_references import model_ids, models_of, no_code_model
from azureml.core.compute import ComputeTarget  # noqa: F401
from azureml.core.environment import Environment  # noqa: F401
from azureml.core.image import Image  # noqa: F401
from azureml.core.model import Model  # noqa: F401
from azureml.core.webservice._configuration import (  # noqa: F401
    AKS_ENDPOINT_TYPE, AKS_WEBSERVICE_TYPE, NAMESPACE_REGEX, AksEndpointDeploymentConfiguration, AksServiceAccessToken,
    AksServiceDeploymentConfiguration, AutoScaler, DataCollection, LivenessProbeRequirements, WebServiceAccessToken,
    check_aks_settings, check_share, check_version_name)
from azureml.core.webservice._records import change, changes_of, error_of, send_change
from azureml.core.webservice.container_resource_requirements import ContainerResourceRequirements  # noqa: F401
from azureml.core.webservice.webservice import (  # noqa: F401
    SERVICE_REQUEST_OPERATION_UPDATE, DeployedWebservice, Webservice, WebserviceDeploymentConfiguration)
from azureml.exceptions import WebserviceException  # noqa: F401

_AUTOSCALE = ("autoscale_enabled", "autoscale_max_replicas", "autoscale_min_replicas", "autoscale_refresh_seconds",
              "autoscale_target_utilization")
_LIVENESS = ("period_seconds", "initial_delay_seconds", "timeout_seconds", "success_threshold", "failure_threshold")
_NOT_SETTINGS = ("self", "__class__", "version_name", "tags", "properties", "description", "models",
                 "inference_config")
_FIRST_VERSION = "default"
MMS_MIGRATION_TIMEOUT_SECONDS = 30
WEBSERVICE_SWAGGER_PATH = "/swagger.json"


class AksWebservice(DeployedWebservice):
    """A web service for production: one worker process per replica on this machine, with keys unless disabled."""

    _webservice_type = AKS_WEBSERVICE_TYPE

    @staticmethod
    def deploy_configuration(autoscale_enabled=None, autoscale_min_replicas=None, autoscale_max_replicas=None,
                             autoscale_refresh_seconds=None, autoscale_target_utilization=None,
                             collect_model_data=None, auth_enabled=None, cpu_cores=None, memory_gb=None,
                             enable_app_insights=None, scoring_timeout_ms=None, replica_max_concurrent_requests=None,
                             max_request_wait_time=None, num_replicas=None, primary_key=None, secondary_key=None,
                             tags=None, properties=None, description=None, gpu_cores=None, period_seconds=None,
                             initial_delay_seconds=None, timeout_seconds=None, success_threshold=None,
                             failure_threshold=None, namespace=None, token_auth_enabled=None,
                             compute_target_name=None, cpu_cores_limit=None, memory_gb_limit=None,
                             blobfuse_enabled=None):
        return AksServiceDeploymentConfiguration(
            autoscale_enabled, autoscale_min_replicas, autoscale_max_replicas, autoscale_refresh_seconds,
            autoscale_target_utilization, collect_model_data, auth_enabled, cpu_cores, memory_gb, enable_app_insights,
            scoring_timeout_ms, replica_max_concurrent_requests, max_request_wait_time, num_replicas, primary_key,
            secondary_key, tags, properties, description, gpu_cores, period_seconds, initial_delay_seconds,
            timeout_seconds, success_threshold, failure_threshold, namespace, token_auth_enabled, compute_target_name,
            cpu_cores_limit, memory_gb_limit, blobfuse_enabled)

    def update(self, image=None, autoscale_enabled=None, autoscale_min_replicas=None, autoscale_max_replicas=None,
               autoscale_refresh_seconds=None, autoscale_target_utilization=None, collect_model_data=None,
               auth_enabled=None, cpu_cores=None, memory_gb=None, enable_app_insights=None, scoring_timeout_ms=None,
               replica_max_concurrent_requests=None, max_request_wait_time=None, num_replicas=None, tags=None,
               properties=None, description=None, models=None, inference_config=None, gpu_cores=None,
               period_seconds=None, initial_delay_seconds=None, timeout_seconds=None, success_threshold=None,
               failure_threshold=None, namespace=None, token_auth_enabled=None, cpu_cores_limit=None,
               memory_gb_limit=None, **kwargs):
        """Change the given settings. A new model or script takes over when ready; no request fails meanwhile."""
        given = dict(locals())
        for name in ("self", "kwargs", "__class__", "image", "models", "inference_config", "tags", "properties",
                     "description"):
            given.pop(name, None)
        if kwargs:
            raise WebserviceException("AksWebservice.update takes no %s." % ", ".join(sorted(kwargs)))
        check_aks_settings(given)
        change(self, **changes_of(self, image, models, inference_config, tags, properties, description, given))

    def get_access_token(self):
        """Return an AksServiceAccessToken; needs token_auth_enabled."""
        with webservice_errors():
            found = self._client.post(self._path + "/token")
        return AksServiceAccessToken(found["access_token"], found["token_type"], found["refresh_after"],
                                     found["expiry_on"])

    def get_token(self):
        """(token, time after which to refresh it)."""
        from datetime import datetime
        token = self.get_access_token()
        return token.access_token, datetime.fromtimestamp(token.refresh_after)

    def serialize(self):
        written = super(AksWebservice, self).serialize()
        written.update({
            "autoScaler": self.autoscaler.serialize(), "dataCollection": self.data_collection.serialize(),
            "livenessProbeRequirements": self.liveness_probe_requirements.serialize(),
            "maxConcurrentRequestsPerContainer": self.max_concurrent_requests_per_container,
            "maxQueueWaitMs": self.max_request_wait_time, "numReplicas": self.num_replicas,
            "scoringTimeoutMs": self.scoring_timeout_ms, "computeName": self.compute_name,
            "namespace": self.namespace, "aadAuthEnabled": self.token_auth_enabled,
            "deploymentStatus": self.deployment_status})
        return written

    def _take(self, workspace, record):
        super(AksWebservice, self)._take(workspace, record)
        config = record["config"]
        self.compute_name = config.get("compute_target_name")
        self.container_resource_requirements = ContainerResourceRequirements(
            *[config.get(name) for name in ("cpu_cores", "memory_gb", "gpu_cores", "cpu_cores_limit",
                                            "memory_gb_limit")])
        self.enable_app_insights = bool(config.get("enable_app_insights"))
        self.autoscaler = AutoScaler(*[config.get(name) for name in _AUTOSCALE])
        collected = bool(config.get("collect_model_data"))
        self.data_collection = DataCollection(False, collected)
        self.liveness_probe_requirements = LivenessProbeRequirements(*[config.get(name) for name in _LIVENESS])
        self.max_concurrent_requests_per_container = config.get("replica_max_concurrent_requests")
        self.max_request_wait_time = config.get("max_request_wait_time")
        self.scoring_timeout_ms = config.get("scoring_timeout_ms")
        self.num_replicas, self.namespace = record.get("replicas"), config.get("namespace")
        self.deployment_status = record["state"]
        self.is_default, self.traffic_percentile, self.version_type = None, None, None


Webservice._types[AKS_WEBSERVICE_TYPE] = AksWebservice


class AksEndpoint(AksWebservice):
    """One URL whose requests are split among versions, each with its own model, script and workers.

    A version gets its traffic_percentile of the requests, and the default version the rest. One that is not ready, or
    down, gets none. The response header azureml-model-deployment names the version.
    """

    _webservice_type = AKS_ENDPOINT_TYPE

    class VersionType(Enum):
        control = "Control"
        treatment = "Treatment"

    @staticmethod
    def deploy_configuration(autoscale_enabled=None, autoscale_min_replicas=None, autoscale_max_replicas=None,
                             autoscale_refresh_seconds=None, autoscale_target_utilization=None,
                             collect_model_data=None, auth_enabled=None, cpu_cores=None, memory_gb=None,
                             enable_app_insights=None, scoring_timeout_ms=None, replica_max_concurrent_requests=None,
                             max_request_wait_time=None, num_replicas=None, primary_key=None, secondary_key=None,
                             tags=None, properties=None, description=None, gpu_cores=None, period_seconds=None,
                             initial_delay_seconds=None, timeout_seconds=None, success_threshold=None,
                             failure_threshold=None, namespace=None, token_auth_enabled=None, version_name=None,
                             traffic_percentile=None, compute_target_name=None, cpu_cores_limit=None,
                             memory_gb_limit=None):
        return AksEndpointDeploymentConfiguration(
            autoscale_enabled, autoscale_min_replicas, autoscale_max_replicas, autoscale_refresh_seconds,
            autoscale_target_utilization, collect_model_data, auth_enabled, cpu_cores, memory_gb, enable_app_insights,
            scoring_timeout_ms, replica_max_concurrent_requests, max_request_wait_time, num_replicas, primary_key,
            secondary_key, tags, properties, description, gpu_cores, period_seconds, initial_delay_seconds,
            timeout_seconds, success_threshold, failure_threshold, namespace, token_auth_enabled,
            version_name or _FIRST_VERSION, traffic_percentile, compute_target_name, cpu_cores_limit, memory_gb_limit)

    @property
    def versions(self):
        """AksEndpointVersion by version name, as last read."""
        return {name: AksEndpointVersion(self, record) for name, record in self._record["versions"].items()}

    def create_version(self, version_name, autoscale_enabled=None, autoscale_min_replicas=None,
                       autoscale_max_replicas=None, autoscale_refresh_seconds=None, autoscale_target_utilization=None,
                       collect_model_data=None, cpu_cores=None, memory_gb=None, scoring_timeout_ms=None,
                       replica_max_concurrent_requests=None, max_request_wait_time=None, num_replicas=None, tags=None,
                       properties=None, description=None, models=None, inference_config=None, gpu_cores=None,
                       period_seconds=None, initial_delay_seconds=None, timeout_seconds=None, success_threshold=None,
                       failure_threshold=None, traffic_percentile=None, is_default=None, is_control_version_type=None,
                       cpu_cores_limit=None, memory_gb_limit=None):
        """Add a version. It gets its traffic_percentile (default 0) as soon as it is ready."""
        settings = {name: value for name, value in locals().items() if name not in _NOT_SETTINGS and value is not None}
        check_version_name(version_name)
        _check_settings(settings)
        found = models_of(self.workspace, models or [])
        if inference_config is None:
            no_code_model(found)
        send_change(self, self._client.post, self._path + "/versions", inference_config, {
            "name": version_name, "models": model_ids(found), "config": settings, "description": description or "",
            "tags": as_texts(tags), "properties": as_texts(properties)})

    def update_version(self, version_name, autoscale_enabled=None, autoscale_min_replicas=None,
                       autoscale_max_replicas=None, autoscale_refresh_seconds=None, autoscale_target_utilization=None,
                       collect_model_data=None, cpu_cores=None, memory_gb=None, scoring_timeout_ms=None,
                       replica_max_concurrent_requests=None, max_request_wait_time=None, num_replicas=None, tags=None,
                       properties=None, description=None, models=None, inference_config=None, gpu_cores=None,
                       period_seconds=None, initial_delay_seconds=None, timeout_seconds=None, success_threshold=None,
                       failure_threshold=None, traffic_percentile=None, is_default=None, is_control_version_type=None,
                       cpu_cores_limit=None, memory_gb_limit=None):
        """Change the given settings. A new model or script takes over when ready; no request fails meanwhile."""
        settings = {name: value for name, value in locals().items() if name not in _NOT_SETTINGS and value is not None}
        version = self._version(version_name)
        _check_settings(settings)
        change(self, path=version._path, **changes_of(version, None, models, inference_config, tags, properties,
                                                      description, settings))

    def delete_version(self, version_name):
        """Delete a version; its traffic goes to the default version, which cannot be deleted."""
        version = self._version(version_name)
        with webservice_errors():
            self._client.delete(version._path)
        self.update_deployment_state()

    def update(self, auth_enabled=None, token_auth_enabled=None, enable_app_insights=None, description=None, tags=None,
               properties=None):
        """Change settings of the endpoint; update_version changes model and script."""
        settings = {"auth_enabled": auth_enabled, "token_auth_enabled": token_auth_enabled,
                    "enable_app_insights": enable_app_insights}
        check_aks_settings(settings)
        change(self, **changes_of(self, None, None, None, tags, properties, description, settings))

    def serialize(self):
        written = super(AksEndpoint, self).serialize()
        written["versions"] = {name: version.serialize() for name, version in self.versions.items()}
        return written

    def _building_path(self, record):
        being_deployed = [name for name, version in record["versions"].items() if version["step"]]
        return "%s/versions/%s" % (self._path, being_deployed[0]) if being_deployed else self._path

    def _version(self, name):
        try:
            return self.versions[name]
        except KeyError:
            raise WebserviceException("The endpoint %r has no version %r; its versions are %s." % (
                self.name, name, ", ".join(repr(one) for one in sorted(self.versions)))) from None


class AksEndpointVersion(object):
    """One version of an endpoint."""

    def __init__(self, endpoint, record):
        self.workspace, self._endpoint, self.name = endpoint.workspace, endpoint, record["name"]
        self.traffic_percentile, self.is_default = record["traffic_percentile"], record["is_default"]
        self.version_type = AksEndpoint.VersionType(record["version_type"]).value
        self.state, self.error = record["state"], error_of(record)
        self.description = record.get("description")
        self.tags, self.properties = dict(record.get("tags") or {}), dict(record.get("properties") or {})
        self.num_replicas, self.scoring_uri = record.get("replicas"), endpoint.scoring_uri
        self.created_time, self.updated_time = parse_time(record["created_at"]), parse_time(record["updated_at"])
        self._models = record["models"]

    @property
    def models(self):
        return [Model(self.workspace, id=model_id) for model_id in self._models]

    def get_logs(self, num_lines=5000, init=False):
        """Last lines of this version's log."""
        with webservice_errors():
            return self._endpoint._client.read(self._path + "/logs", lines=num_lines).decode("utf-8", "replace")

    @property
    def _path(self):
        return "%s/versions/%s" % (self._endpoint._path, self.name)

    def serialize(self):
        return {"name": self.name, "trafficPercentile": self.traffic_percentile, "isDefault": self.is_default,
                "type": self.version_type, "state": self.state, "description": self.description, "tags": self.tags,
                "properties": self.properties, "models": list(self._models), "error": self.error}

    def __repr__(self):
        return "%s(name=%s, traffic_percentile=%s, is_default=%s, version_type=%s, state=%s)" % (
            type(self).__name__, self.name, self.traffic_percentile, self.is_default, self.version_type, self.state)


def _check_settings(settings):
    check_aks_settings(settings)
    check_share("traffic_percentile", settings.get("traffic_percentile"))


Webservice._types[AKS_ENDPOINT_TYPE] = AksEndpoint
