import re

from azureml.core.webservice._configuration import WebserviceDeploymentConfiguration, check_number
from azureml.exceptions import WebserviceException

AKS_WEBSERVICE_TYPE = "AKS"
AKS_ENDPOINT_TYPE = "AKSENDPOINT"
NAMESPACE_REGEX = "^[a-z0-9]([a-z0-9-]{,61}[a-z0-9])?$"
_VERSION_NAME = r"^[a-z]([a-z0-9-]{0,30}[a-z0-9])?\Z"

_AUTOSCALE = ("autoscale_min_replicas", "autoscale_max_replicas", "autoscale_refresh_seconds",
              "autoscale_target_utilization")
_AT_LEAST_ONE = ("autoscale_min_replicas", "autoscale_max_replicas", "autoscale_refresh_seconds", "scoring_timeout_ms",
                 "replica_max_concurrent_requests", "num_replicas", "period_seconds", "timeout_seconds",
                 "success_threshold", "failure_threshold")
_AT_LEAST_ZERO = ("max_request_wait_time", "gpu_cores", "initial_delay_seconds")
_ABOVE_ZERO = ("cpu_cores", "memory_gb", "cpu_cores_limit", "memory_gb_limit")


class AksServiceDeploymentConfiguration(WebserviceDeploymentConfiguration):
    """The settings of an AksWebservice. Contradictions raise WebserviceException at once."""

    def __init__(self, autoscale_enabled, autoscale_min_replicas, autoscale_max_replicas, autoscale_refresh_seconds,
                 autoscale_target_utilization, collect_model_data, auth_enabled, cpu_cores, memory_gb,
                 enable_app_insights, scoring_timeout_ms, replica_max_concurrent_requests, max_request_wait_time,
                 num_replicas, primary_key, secondary_key, tags, properties, description, gpu_cores, period_seconds,
                 initial_delay_seconds, timeout_seconds, success_threshold, failure_threshold, namespace,
                 token_auth_enabled, compute_target_name, cpu_cores_limit, memory_gb_limit, blobfuse_enabled=None):
        super(AksServiceDeploymentConfiguration, self).__init__(
            AKS_WEBSERVICE_TYPE, description, tags, properties, primary_key, secondary_key)
        self.autoscale_enabled = autoscale_enabled
        self.autoscale_min_replicas = autoscale_min_replicas
        self.autoscale_max_replicas = autoscale_max_replicas
        self.autoscale_refresh_seconds = autoscale_refresh_seconds
        self.autoscale_target_utilization = autoscale_target_utilization
        self.collect_model_data = collect_model_data
        self.auth_enabled = auth_enabled
        self.cpu_cores = cpu_cores
        self.cpu_cores_limit = cpu_cores_limit
        self.memory_gb = memory_gb
        self.memory_gb_limit = memory_gb_limit
        self.gpu_cores = gpu_cores
        self.enable_app_insights = enable_app_insights
        self.scoring_timeout_ms = scoring_timeout_ms
        self.replica_max_concurrent_requests = replica_max_concurrent_requests
        self.max_request_wait_time = max_request_wait_time
        self.num_replicas = num_replicas
        self.period_seconds = period_seconds
        self.initial_delay_seconds = initial_delay_seconds
        self.timeout_seconds = timeout_seconds
        self.success_threshold = success_threshold
        self.failure_threshold = failure_threshold
        self.namespace = namespace
        self.token_auth_enabled = token_auth_enabled
        self.compute_target_name = compute_target_name
        self.blobfuse_enabled = blobfuse_enabled
        self.validate_configuration()

    def validate_configuration(self):
        check_aks_settings(vars(self))

    def print_deploy_configuration(self):
        self._print(("cpu_cores", "memory_gb", "gpu_cores", "num_replicas", "autoscale_enabled") + _AUTOSCALE + (
            "auth_enabled", "token_auth_enabled", "scoring_timeout_ms", "replica_max_concurrent_requests",
            "max_request_wait_time", "namespace"))


class AksEndpointDeploymentConfiguration(AksServiceDeploymentConfiguration):
    """The settings of an AksEndpoint and of its first version."""

    def __init__(self, autoscale_enabled, autoscale_min_replicas, autoscale_max_replicas, autoscale_refresh_seconds,
                 autoscale_target_utilization, collect_model_data, auth_enabled, cpu_cores, memory_gb,
                 enable_app_insights, scoring_timeout_ms, replica_max_concurrent_requests, max_request_wait_time,
                 num_replicas, primary_key, secondary_key, tags, properties, description, gpu_cores, period_seconds,
                 initial_delay_seconds, timeout_seconds, success_threshold, failure_threshold, namespace,
                 token_auth_enabled, version_name, traffic_percentile, compute_target_name, cpu_cores_limit,
                 memory_gb_limit):
        self.version_name = version_name
        self.traffic_percentile = traffic_percentile
        super(AksEndpointDeploymentConfiguration, self).__init__(
            autoscale_enabled, autoscale_min_replicas, autoscale_max_replicas, autoscale_refresh_seconds,
            autoscale_target_utilization, collect_model_data, auth_enabled, cpu_cores, memory_gb, enable_app_insights,
            scoring_timeout_ms, replica_max_concurrent_requests, max_request_wait_time, num_replicas, primary_key,
            secondary_key, tags, properties, description, gpu_cores, period_seconds, initial_delay_seconds,
            timeout_seconds, success_threshold, failure_threshold, namespace, token_auth_enabled, compute_target_name,
            cpu_cores_limit, memory_gb_limit)
        self._webservice_type = AKS_ENDPOINT_TYPE
        self.validate_endpoint_configuration()

    def validate_endpoint_configuration(self):
        """Raise WebserviceException for a version or a share of the traffic that cannot be."""
        check_version_name(self.version_name)
        check_share("traffic_percentile", self.traffic_percentile)


def check_version_name(name):
    """WebserviceException for a name that no version of an endpoint can have."""
    if not isinstance(name, str) or not re.match(_VERSION_NAME, name):
        raise WebserviceException("version_name %r is not valid. It has 1 to 32 characters: lower case letters, digits "
                                  "and '-'; it begins with a letter and ends with a letter or digit." % (name,))


def check_aks_settings(given):
    """WebserviceException for a value, or values together, that no AksWebservice can have."""
    for name in _AT_LEAST_ONE:
        check_number(name, given.get(name), at_least=1, whole=True)
    for name in _AT_LEAST_ZERO:
        check_number(name, given.get(name), at_least=0, whole=True)
    for name in _ABOVE_ZERO:
        check_number(name, given.get(name), above=0)
    check_share("autoscale_target_utilization", given.get("autoscale_target_utilization"), least=1)
    _check_scale(given)
    _check_limits(given)
    if given.get("auth_enabled") and given.get("token_auth_enabled"):
        raise WebserviceException("auth_enabled (keys) and token_auth_enabled exclude each other; choose one.")
    namespace = given.get("namespace")
    if namespace is not None and not (isinstance(namespace, str) and re.match(NAMESPACE_REGEX[:-1] + r"\Z", namespace)):
        raise WebserviceException("namespace must have 1 to 63 lower case letters, digits and '-', and begin and end "
                                  "with a letter or digit; got %r." % (namespace,))


def check_share(name, value, least=0):
    """WebserviceException for a percentage outside of its range."""
    check_number(name, value, at_least=least)
    if value is not None and value > 100:
        raise WebserviceException("%s must be at most 100, got %r." % (name, value))


def _check_scale(given):
    scaling = [name for name in _AUTOSCALE if given.get(name) is not None]
    if given.get("autoscale_enabled") and given.get("num_replicas") is not None:
        raise WebserviceException("num_replicas fixes the number of replicas, and autoscale_enabled=True changes it; "
                                  "give one of them.")
    if scaling and (given.get("autoscale_enabled") is False or given.get("num_replicas") is not None):
        raise WebserviceException("%s needs autoscale_enabled=True%s." % (
            scaling[0], " and no num_replicas" if given.get("num_replicas") is not None else ""))
    least, most = given.get("autoscale_min_replicas"), given.get("autoscale_max_replicas")
    if least is not None and most is not None and least > most:
        raise WebserviceException("autoscale_min_replicas must be at most autoscale_max_replicas (%s), got %s." % (
            most, least))


def _check_limits(given):
    for amount, limit in (("cpu_cores", "cpu_cores_limit"), ("memory_gb", "memory_gb_limit")):
        if given.get(amount) is not None and given.get(limit) is not None and given[limit] < given[amount]:
            raise WebserviceException("%s must be at least %s (%s), got %s." % (
                limit, amount, given[amount], given[limit]))
