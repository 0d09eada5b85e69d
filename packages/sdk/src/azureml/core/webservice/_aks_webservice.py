from azureml._service import webservice_errors
from azureml.core.webservice._aks_configuration import (
    AKS_WEBSERVICE_TYPE, AksServiceDeploymentConfiguration, check_aks_settings)
from azureml.core.webservice._changing import change, changes_of
from azureml.core.webservice._deployed import DeployedWebservice
from azureml.core.webservice._replica_parts import (
    AksServiceAccessToken, AutoScaler, DataCollection, LivenessProbeRequirements)
from azureml.core.webservice.container_resource_requirements import ContainerResourceRequirements
from azureml.core.webservice.webservice import Webservice
from azureml.exceptions import WebserviceException

_AUTOSCALE = ("autoscale_enabled", "autoscale_max_replicas", "autoscale_min_replicas", "autoscale_refresh_seconds",
              "autoscale_target_utilization")
_LIVENESS = ("period_seconds", "initial_delay_seconds", "timeout_seconds", "success_threshold", "failure_threshold")


class AksWebservice(DeployedWebservice):
    """A web service for production: a worker process a replica on this machine, with keys unless told otherwise."""

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
        """Change what is given. A new model or script takes over when it is ready; no request fails meanwhile."""
        given = dict(locals())
        for name in ("self", "kwargs", "__class__", "image", "models", "inference_config", "tags", "properties",
                     "description"):
            given.pop(name, None)
        if kwargs:
            raise WebserviceException("AksWebservice.update takes no %s." % ", ".join(sorted(kwargs)))
        check_aks_settings(given)
        change(self, **changes_of(self, image, models, inference_config, tags, properties, description, given))

    def get_access_token(self):
        """An AksServiceAccessToken; needs token_auth_enabled."""
        with webservice_errors():
            found = self._client.post(self._path + "/token")
        return AksServiceAccessToken(found["access_token"], found["token_type"], found["refresh_after"],
                                     found["expiry_on"])

    def get_token(self):
        """(token, the time after which to ask for another)."""
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
