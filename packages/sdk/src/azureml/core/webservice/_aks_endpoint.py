from enum import Enum

from azureml._not_yet import unsupported
from azureml.core.webservice._aks_configuration import (
    AKS_ENDPOINT_TYPE, AksEndpointDeploymentConfiguration, check_aks_settings, check_share)
from azureml.core.webservice._aks_webservice import AksWebservice
from azureml.core.webservice._changing import change, changes_of
from azureml.core.webservice.webservice import Webservice
from azureml.exceptions import WebserviceException

_NOT_SETTINGS = ("self", "__class__", "version_name", "tags", "properties", "description", "models",
                 "inference_config", "is_control_version_type")
_FIRST_VERSION = "default"


class AksEndpoint(AksWebservice):
    """An AksWebservice whose model and script have the name of a version. It has one version at a time here."""

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
        """Version name to the web service that answers for it."""
        return {self._record["config"]["version_name"]: _Version(self)}

    def create_version(self, version_name, autoscale_enabled=None, autoscale_min_replicas=None,
                       autoscale_max_replicas=None, autoscale_refresh_seconds=None, autoscale_target_utilization=None,
                       collect_model_data=None, cpu_cores=None, memory_gb=None, scoring_timeout_ms=None,
                       replica_max_concurrent_requests=None, max_request_wait_time=None, num_replicas=None, tags=None,
                       properties=None, description=None, models=None, inference_config=None, gpu_cores=None,
                       period_seconds=None, initial_delay_seconds=None, timeout_seconds=None, success_threshold=None,
                       failure_threshold=None, traffic_percentile=None, is_default=None, is_control_version_type=None,
                       cpu_cores_limit=None, memory_gb_limit=None):
        raise unsupported(
            "A second version of an endpoint beside the first", "Deploy it as a web service of its own, or change this "
            "one with update_version(%r, models=..., inference_config=...): no request fails meanwhile." % (
                self._record["config"]["version_name"]))

    def update_version(self, version_name, autoscale_enabled=None, autoscale_min_replicas=None,
                       autoscale_max_replicas=None, autoscale_refresh_seconds=None, autoscale_target_utilization=None,
                       collect_model_data=None, cpu_cores=None, memory_gb=None, scoring_timeout_ms=None,
                       replica_max_concurrent_requests=None, max_request_wait_time=None, num_replicas=None, tags=None,
                       properties=None, description=None, models=None, inference_config=None, gpu_cores=None,
                       period_seconds=None, initial_delay_seconds=None, timeout_seconds=None, success_threshold=None,
                       failure_threshold=None, traffic_percentile=None, is_default=None, is_control_version_type=None,
                       cpu_cores_limit=None, memory_gb_limit=None):
        """Change what is given. A new model or script takes over when it is ready; no request fails meanwhile."""
        settings = {name: value for name, value in locals().items() if name not in _NOT_SETTINGS}
        self._require(version_name)
        check_aks_settings(settings)
        check_share("traffic_percentile", traffic_percentile)
        settings.pop("is_default")
        change(self, **changes_of(self, None, models, inference_config, tags, properties, description, settings))

    def delete_version(self, version_name):
        self._require(version_name)
        raise WebserviceException("%r is the one version of the endpoint %r; delete() removes both." % (
            version_name, self.name))

    def update(self, auth_enabled=None, token_auth_enabled=None, enable_app_insights=None, description=None, tags=None,
               properties=None):
        """Change what concerns the endpoint; update_version changes its model and script."""
        settings = {"auth_enabled": auth_enabled, "token_auth_enabled": token_auth_enabled,
                    "enable_app_insights": enable_app_insights}
        check_aks_settings(settings)
        change(self, **changes_of(self, None, None, None, tags, properties, description, settings))

    def serialize(self):
        written = super(AksEndpoint, self).serialize()
        written["versions"] = {name: version.serialize() for name, version in self.versions.items()}
        return written

    def _take(self, workspace, record):
        super(AksEndpoint, self)._take(workspace, record)
        self.is_default, self.version_type = True, AksEndpoint.VersionType.control.value
        self.traffic_percentile = record["config"].get("traffic_percentile", 100)

    def _require(self, version_name):
        known = self._record["config"]["version_name"]
        if version_name != known:
            raise WebserviceException("The endpoint %r has no version %r; its version is %r." % (
                self.name, version_name, known))


class _Version(object):
    """What an endpoint says of a version of it."""

    def __init__(self, endpoint):
        self.name = endpoint._record["config"]["version_name"]
        self.traffic_percentile, self.is_default = endpoint.traffic_percentile, endpoint.is_default
        self.version_type, self.state = endpoint.version_type, endpoint.state

    def serialize(self):
        return {"name": self.name, "trafficPercentile": self.traffic_percentile, "isDefault": self.is_default,
                "type": self.version_type, "state": self.state}


Webservice._types[AKS_ENDPOINT_TYPE] = AksEndpoint
