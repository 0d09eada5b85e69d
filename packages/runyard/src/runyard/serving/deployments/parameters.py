"""Parameters of deploy_configuration: which service type has them, their values, and their effect here."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from runyard.core.definitions.fields import shown, whole_number
from runyard.core.errors import InvalidArgument
from runyard.core.records.web_services import ServiceType

Check = Callable[[str, Any], Any]
"""Callback: name and value of a parameter -> value to store. Raises InvalidArgument."""
LONGEST_TEXT = 4096
LONGEST_PEM = 256 * 1024
LONGEST_KEY = 256
MOST_REPLICAS = 256
MOST_SECONDS = 24 * 3600
ACI, AKS, LOCAL = ServiceType.ACI, ServiceType.AKS, ServiceType.LOCAL
EVERY = frozenset(ServiceType)


@dataclass(frozen=True)
class Parameter:
    types: frozenset[ServiceType]
    check: Check
    effect: str = ""
    """What it does here; "" for one that is accepted and ignored."""
    is_secret: bool = False


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidArgument(f"{name} must be True or False, got {shown(value)}.")
    return value


def _number(most: float, *, least: float = 0.0) -> Check:
    """Above `least`, and at most `most`."""

    def check(name: str, value: Any) -> float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not is_number or not least < value <= most:
            raise InvalidArgument(f"{name} must be a number above {least:g} and at most {most:g}, got {shown(value)}.")
        return float(value)

    return check


def _whole(least: int, most: int) -> Check:
    def check(name: str, value: Any) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        return whole_number(value, name, at_least=least, at_most=most)

    return check


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_TEXT or not value.isprintable():
        raise InvalidArgument(f"{name} must be a text of at most {LONGEST_TEXT} characters, got {shown(value)}.")
    return value


def _pem(name: str, value: Any) -> str:
    """The value is never in the error: it may be a private key."""
    if not isinstance(value, str) or not value.lstrip().startswith("-----BEGIN ") or len(value) > LONGEST_PEM:
        raise InvalidArgument(
            f"{name}_file holds no certificate or key in PEM form.", hint="It begins with '-----BEGIN '."
        )
    return value


def _key(name: str, value: Any) -> str:
    is_sendable = isinstance(value, str) and value.isascii() and value.isprintable() and " " not in value
    if not is_sendable or not 8 <= len(value) <= LONGEST_KEY:
        raise InvalidArgument(
            f"{name} must be 8 to {LONGEST_KEY} characters that a header can carry: printable ASCII without spaces."
        )
    return str(value)


def _accepted(check: Check, *types: ServiceType) -> Parameter:
    return Parameter(frozenset(types), check)


PARAMETERS: Mapping[str, Parameter] = {
    "cpu_cores": Parameter(EVERY, _number(1024), "Threads that numeric libraries use in a worker."),
    "memory_gb": Parameter(EVERY, _number(1 << 16), "A worker that holds more is replaced, and the log says so."),
    "auth_enabled": Parameter(EVERY, _flag, "Requests need a key. Off for ACI and local, on for AKS."),
    "num_replicas": Parameter(EVERY, _whole(1, MOST_REPLICAS), "So many worker processes."),
    "port": Parameter(EVERY, _whole(1, 65535), "The port; any free one without it."),
    "primary_key": Parameter(frozenset({ACI, AKS}), _key, "The first key, in place of a random one.", is_secret=True),
    "secondary_key": Parameter(frozenset({ACI, AKS}), _key, "The second key.", is_secret=True),
    "ssl_enabled": Parameter(frozenset({ACI}), _flag, "The port speaks TLS with your certificate."),
    "ssl_cert_pem": Parameter(frozenset({ACI}), _pem, "The certificate (ssl_cert_pem_file)."),
    "ssl_key_pem": Parameter(frozenset({ACI}), _pem, "Its private key (ssl_key_pem_file).", is_secret=True),
    "ssl_cname": Parameter(frozenset({ACI}), _text, "A name that the Host header may have."),
    "autoscale_enabled": Parameter(
        frozenset({AKS}), _flag, "Workers come and go by load; on unless num_replicas is given."
    ),
    "autoscale_min_replicas": Parameter(frozenset({AKS}), _whole(1, MOST_REPLICAS), "Workers at least; 1 without it."),
    "autoscale_max_replicas": Parameter(
        frozenset({AKS}), _whole(1, MOST_REPLICAS), "Workers at most; 10, or this machine's cores if fewer, without it."
    ),
    "autoscale_refresh_seconds": Parameter(
        frozenset({AKS}), _number(MOST_SECONDS), "How often the load is looked at; 1 without it."
    ),
    "autoscale_target_utilization": Parameter(
        frozenset({AKS}), _whole(1, 100), "The load, in percent, that workers are kept at; 70 without it."
    ),
    "scoring_timeout_ms": Parameter(
        frozenset({AKS}), _whole(1, MOST_SECONDS * 1000), "A request that takes longer is answered 504; 60000 without."
    ),
    "replica_max_concurrent_requests": Parameter(
        frozenset({AKS}), _whole(1, 1000), "Requests that one worker works on at a time, in threads; 1 without it."
    ),
    "max_request_wait_time": Parameter(
        frozenset({AKS}),
        _whole(0, MOST_SECONDS * 1000),
        "Milliseconds a request may wait for a worker before it is answered 503; 500 without it.",
    ),
    "token_auth_enabled": Parameter(frozenset({AKS}), _flag, "Requests need a token of get_token()."),
    "gpu_cores": Parameter(frozenset({AKS}), _whole(0, 64), "So many GPUs are visible to workers; none without it."),
    "cpu_cores_limit": Parameter(frozenset({AKS}), _number(1024), "As cpu_cores, which it must not be below."),
    "memory_gb_limit": Parameter(frozenset({AKS}), _number(1 << 16), "As memory_gb, which it must not be below."),
    "enable_app_insights": _accepted(_flag, ACI, AKS),
    "collect_model_data": _accepted(_flag, ACI, AKS),
    **dict.fromkeys(("location", "dns_name_label", "vnet_name", "subnet_name"), _accepted(_text, ACI)),
    **dict.fromkeys(("cmk_vault_base_url", "cmk_key_name", "cmk_key_version"), _accepted(_text, ACI)),
    **dict.fromkeys(("period_seconds", "timeout_seconds"), _accepted(_whole(1, MOST_SECONDS), AKS)),
    "initial_delay_seconds": _accepted(_whole(0, MOST_SECONDS), AKS),
    **dict.fromkeys(("success_threshold", "failure_threshold"), _accepted(_whole(1, 10_000), AKS)),
    **dict.fromkeys(("namespace", "compute_target_name"), _accepted(_text, AKS)),
    "blobfuse_enabled": _accepted(_flag, AKS),
    "version_name": Parameter(frozenset({AKS}), _text, "Makes it an endpoint; the name of its first version."),
    "traffic_percentile": Parameter(
        frozenset({AKS}), _whole(0, 100), "The version's share of the requests; what is left goes to the default one."
    ),
    "is_default": Parameter(frozenset({AKS}), _flag, "The version gets what traffic_percentile of all leave over."),
    "is_control_version_type": Parameter(frozenset({AKS}), _flag, "Kept: the version that others are compared with."),
}

WITHOUT_EFFECT: Mapping[str, Parameter] = {name: one for name, one in PARAMETERS.items() if not one.effect}
SECRETS = frozenset(name for name, one in PARAMETERS.items() if one.is_secret)


def checked_parameters(type: ServiceType, given: Mapping[str, Any]) -> dict[str, Any]:
    """Check each by itself; None means "not given". Raises InvalidArgument for a name that the type does not have."""
    checked = {}
    for name, value in given.items():
        parameter = PARAMETERS.get(name)
        if parameter is None or type not in parameter.types:
            raise InvalidArgument(
                f"{name!a} is no parameter of a deploy_configuration for {type}.", hint=f"Known: {_known(type)}."
            )
        if value is not None:
            checked[name] = parameter.check(name, value)
    return checked


def _known(type: ServiceType) -> str:
    return ", ".join(sorted(name for name, one in PARAMETERS.items() if type in one.types))
