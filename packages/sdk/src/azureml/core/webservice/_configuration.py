import os
import re
from abc import ABC, abstractmethod

from azureml.exceptions import WebserviceException

_NAME = r"^[a-z]([-a-z0-9]*[a-z0-9])?\Z"
ACI_WEBSERVICE_TYPE = "ACI"
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


class WebserviceDeploymentConfiguration(ABC):
    """Settings of a web service. None leaves a value to the service."""

    _given_apart = ("tags", "properties", "description")
    """Sent beside the configuration in a request."""

    def __init__(self, type, description=None, tags=None, properties=None, primary_key=None, secondary_key=None,
                 location=None):
        self._webservice_type = type
        self.description = description
        self.tags = tags
        self.properties = properties
        self.primary_key = primary_key
        self.secondary_key = secondary_key
        self.location = location

    @abstractmethod
    def validate_configuration(self):
        """Raises WebserviceException for an invalid value."""

    @abstractmethod
    def print_deploy_configuration(self):
        """Print the given settings, one per line."""

    @classmethod
    def validate_image(cls, image):
        """Raises WebserviceException for an image that cannot be deployed."""
        if image is None:
            raise WebserviceException("image is missing: give the Image that Image.create returned.")
        if image.creation_state != "Succeeded":
            raise WebserviceException("The image %s is in state %r and cannot be deployed; only one that was created "
                                      "can." % (image.id, image.creation_state))

    def _to_wire(self):
        """Given parameters by name."""
        return {name: value for name, value in sorted(vars(self).items())
                if value is not None and not name.startswith("_") and name not in self._given_apart}

    def _print(self, names):
        for name in names:
            value = getattr(self, name)
            if value is not None:
                print("%s: %s" % (name, value))


def check_name(name):
    """Raises WebserviceException for an invalid web service name."""
    if not isinstance(name, str) or not 3 <= len(name) <= 32 or not re.match(_NAME, name):
        raise WebserviceException(
            "The web service name %r is not valid. It has 3 to 32 characters: lower case letters, digits and '-'; it "
            "begins with a letter and ends with a letter or digit." % (name,))


def check_number(name, value, above=None, at_least=None, whole=False):
    """Raises WebserviceException, naming the argument, where `value` is given and not such a number."""
    if value is None:
        return
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and value - value == 0
    right = is_number and (not whole or value == int(value)) and (above is None or value > above) and \
        (at_least is None or value >= at_least)
    if not right:
        bound = "above %s" % above if above is not None else "of at least %s" % at_least
        raise WebserviceException("%s must be a %s %s, got %r." % (
            name, "whole number" if whole else "number", bound, value))


def check_together(names, values, what):
    """Raises WebserviceException where only some of the arguments that belong together are given."""
    missing = [name for name, value in zip(names, values) if not value]
    if missing and len(missing) < len(names):
        raise WebserviceException("%s go together for %s; %s is missing." % (
            ", ".join(names), what, " and ".join(missing)))


class Part(object):
    """A group of values that serialize() returns under names of its own."""

    _keys = ()
    """Pairs of attribute and key in the mapping, in the order of the constructor's arguments."""
    _optional = ()

    def serialize(self):
        return {key: getattr(self, name) for name, key in self._keys}

    @classmethod
    def deserialize(cls, payload_obj):
        """Object from the mapping; None for None. Raises WebserviceException where a value is missing."""
        if payload_obj is None:
            return None
        missing = [key for name, key in cls._keys if key not in payload_obj and name not in cls._optional]
        if missing:
            raise WebserviceException("Invalid webservice payload, missing %s for %s: %r" % (
                ", ".join(missing), cls.__name__, payload_obj))
        return cls(*[payload_obj.get(key) for _, key in cls._keys])

    def __repr__(self):
        return "%s(%s)" % (type(self).__name__, ", ".join("%s=%r" % (name, getattr(self, name))
                                                          for name, _ in self._keys))


class AciServiceDeploymentConfiguration(WebserviceDeploymentConfiguration):
    """Settings of an AciWebservice. Raises WebserviceException for contradictions."""

    def __init__(self, cpu_cores=None, memory_gb=None, tags=None, properties=None, description=None, location=None,
                 auth_enabled=None, ssl_enabled=None, enable_app_insights=None, ssl_cert_pem_file=None,
                 ssl_key_pem_file=None, ssl_cname=None, dns_name_label=None, primary_key=None, secondary_key=None,
                 collect_model_data=None, cmk_vault_base_url=None, cmk_key_name=None, cmk_key_version=None,
                 vnet_name=None, subnet_name=None):
        super(AciServiceDeploymentConfiguration, self).__init__(
            ACI_WEBSERVICE_TYPE, description, tags, properties, primary_key, secondary_key, location)
        self.cpu_cores = cpu_cores
        self.memory_gb = memory_gb
        self.auth_enabled = auth_enabled
        self.ssl_enabled = ssl_enabled
        self.enable_app_insights = enable_app_insights
        self.ssl_cert_pem_file = ssl_cert_pem_file
        self.ssl_key_pem_file = ssl_key_pem_file
        self.ssl_cname = ssl_cname
        self.dns_name_label = dns_name_label
        self.collect_model_data = collect_model_data
        self.cmk_vault_base_url = cmk_vault_base_url
        self.cmk_key_name = cmk_key_name
        self.cmk_key_version = cmk_key_version
        self.vnet_name = vnet_name
        self.subnet_name = subnet_name
        self.validate_configuration()

    def validate_configuration(self):
        check_number("cpu_cores", self.cpu_cores, above=0)
        check_number("memory_gb", self.memory_gb, above=0)
        check_ssl(self.ssl_enabled, self.ssl_cert_pem_file, self.ssl_key_pem_file, self.ssl_cname)
        check_together(("cmk_vault_base_url", "cmk_key_name", "cmk_key_version"),
                       (self.cmk_vault_base_url, self.cmk_key_name, self.cmk_key_version), "a key of your own")
        check_together(("vnet_name", "subnet_name"), (self.vnet_name, self.subnet_name), "a virtual network")

    def print_deploy_configuration(self):
        self._print(("cpu_cores", "memory_gb", "auth_enabled", "ssl_enabled", "enable_app_insights", "location"))

    def _to_wire(self):
        return with_pem_texts(super(AciServiceDeploymentConfiguration, self)._to_wire())


class ContainerResourceRequirements(Part):
    """Resources of one replica."""

    _keys = (("cpu", "cpu"), ("memory_in_gb", "memoryInGB"))

    def __init__(self, cpu, memory_in_gb):
        self.cpu = cpu
        self.memory_in_gb = memory_in_gb


class EncryptionProperties(Part):
    """Key for Azure's container encryption. Stored, without effect."""

    _keys = (("cmk_vault_base_url", "vaultBaseUrl"), ("cmk_key_name", "keyName"), ("cmk_key_version", "keyVersion"))

    def __init__(self, cmk_vault_base_url, cmk_key_name, cmk_key_version):
        self.cmk_vault_base_url = cmk_vault_base_url
        self.cmk_key_name = cmk_key_name
        self.cmk_key_version = cmk_key_version


class VnetConfiguration(Part):
    """Azure network of the container. Stored, without effect."""

    _keys = (("vnet_name", "vnetName"), ("subnet_name", "subnetName"))

    def __init__(self, vnet_name, subnet_name):
        self.vnet_name = vnet_name
        self.subnet_name = subnet_name


def check_ssl(enabled, cert_file, key_file, cname):
    """Raises WebserviceException for incomplete TLS settings and for missing files."""
    given = [name for name, value in (("ssl_cert_pem_file", cert_file), ("ssl_key_pem_file", key_file),
                                      ("ssl_cname", cname)) if value]
    if enabled and len(given) < 3:
        raise WebserviceException("ssl_enabled needs ssl_cert_pem_file, ssl_key_pem_file and ssl_cname; given: %s." % (
            ", ".join(given) or "none of them"))
    if given and not enabled:
        raise WebserviceException("%s is given, but ssl_enabled is not: pass ssl_enabled=True with it." % given[0])
    for name, path in (("ssl_cert_pem_file", cert_file), ("ssl_key_pem_file", key_file)):
        if path and not os.path.isfile(path):
            raise WebserviceException("%s names no file: %r." % (name, path))


def with_pem_texts(settings):
    """Settings with certificate and key texts in place of their paths."""
    changed = dict(settings)
    for name in ("ssl_cert_pem", "ssl_key_pem"):
        path = changed.pop(name + "_file", None)
        if path is not None:
            changed[name] = _text_of(name + "_file", path)
    return changed


def _text_of(argument, path):
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise WebserviceException("%s %r cannot be read as a PEM file: %s." % (argument, path, error))


class AksServiceDeploymentConfiguration(WebserviceDeploymentConfiguration):
    """Settings of an AksWebservice. Raises WebserviceException for contradictions."""

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
    """Settings of an AksEndpoint and of its first version."""

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
        """Raises WebserviceException for an invalid version or traffic share."""
        check_version_name(self.version_name)
        check_share("traffic_percentile", self.traffic_percentile)


def check_version_name(name):
    """Raises WebserviceException for an invalid version name."""
    if not isinstance(name, str) or not re.match(_VERSION_NAME, name):
        raise WebserviceException("version_name %r is not valid. It has 1 to 32 characters: lower case letters, digits "
                                  "and '-'; it begins with a letter and ends with a letter or digit." % (name,))


def check_aks_settings(given):
    """Raises WebserviceException for invalid or contradictory settings of an AksWebservice."""
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
    """Raises WebserviceException for a percentage out of range."""
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


class AutoScaler(Part):
    """Bounds of the number of replicas, and their target utilisation."""

    _keys = (("autoscale_enabled", "autoscaleEnabled"), ("max_replicas", "maxReplicas"),
             ("min_replicas", "minReplicas"), ("refresh_period_seconds", "refreshPeriodInSeconds"),
             ("target_utilization", "targetUtilization"))

    def __init__(self, autoscale_enabled, max_replicas, min_replicas, refresh_period_seconds, target_utilization):
        self.autoscale_enabled = autoscale_enabled
        self.max_replicas = max_replicas
        self.min_replicas = min_replicas
        self.refresh_period_seconds = refresh_period_seconds
        self.target_utilization = target_utilization


class DataCollection(Part):
    """Whether inputs are collected. Stored, without effect."""

    _keys = (("event_hub_enabled", "eventHubEnabled"), ("storage_enabled", "storageEnabled"))

    def __init__(self, event_hub_enabled, storage_enabled):
        self.event_hub_enabled = event_hub_enabled
        self.storage_enabled = storage_enabled


class LivenessProbeRequirements(Part):
    """Liveness probe of a cluster. Stored, without effect: the end of a worker process is noticed at once."""

    _keys = (("period_seconds", "periodSeconds"), ("initial_delay_seconds", "initialDelaySeconds"),
             ("timeout_seconds", "timeoutSeconds"), ("success_threshold", "successThreshold"),
             ("failure_threshold", "failureThreshold"))

    def __init__(self, period_seconds, initial_delay_seconds, timeout_seconds, success_threshold, failure_threshold):
        self.period_seconds = period_seconds
        self.initial_delay_seconds = initial_delay_seconds
        self.timeout_seconds = timeout_seconds
        self.success_threshold = success_threshold
        self.failure_threshold = failure_threshold


class WebServiceAccessToken(Part):
    """Access token of a web service, and when (seconds since 1970) to refresh it."""

    _keys = (("access_token", "accessToken"), ("token_type", "tokenType"), ("refresh_after", "refreshAfter"),
             ("expiry_on", "expiryOn"))

    def __init__(self, access_token, token_type, refresh_after, expiry_on):
        self.access_token = access_token
        self.token_type = token_type
        self.refresh_after = refresh_after
        self.expiry_on = expiry_on

    def __repr__(self):
        return "%s(token_type=%r, refresh_after=%r, expiry_on=%r)" % (
            type(self).__name__, self.token_type, self.refresh_after, self.expiry_on)


class AksServiceAccessToken(WebServiceAccessToken):
    pass
