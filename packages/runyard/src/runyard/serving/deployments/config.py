"""Turns a deploy_configuration into workers, limits, authentication and variables."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runyard.core.errors import InvalidArgument
from runyard.core.records.web_services import Scale, ServiceType, ServingLimits
from runyard.serving.deployments.parameters import MOST_REPLICAS, MOST_SECONDS, checked_parameters

GB = 1 << 30
AKS_SCORING_MS, AKS_WAIT_MS, AKS_MOST_REPLICAS = 60_000, 500, 10
SCORING_SECONDS = 300.0
"""For types without scoring_timeout_ms, unless WORKER_TIMEOUT is set."""
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
)
Config = Mapping[str, Any]


@dataclass(frozen=True)
class Machine:
    """Resources of this machine that web services can use."""

    cores: int = 1
    gpus: tuple[str, ...] = ()
    """In the form of CUDA_VISIBLE_DEVICES."""


@dataclass(frozen=True)
class ServingPlan:
    """What a deploy_configuration means for the gateway and its workers."""

    scale: Scale
    limits: ServingLimits
    auth_enabled: bool
    token_auth_enabled: bool
    variables: Mapping[str, str] = field(default_factory=dict)
    """For every worker; variables of the user's environment override them."""
    notes: tuple[str, ...] = ()


def checked_config(type: ServiceType, given: Config) -> dict[str, Any]:
    """Check the given parameters. Raises InvalidArgument, which names a wrong or conflicting parameter."""
    config = checked_parameters(type, given)
    _check_scale(config)
    _check_admission(type, config)
    _check_tls(config)
    _check_pairs(config)
    for limit, request in (("cpu_cores_limit", "cpu_cores"), ("memory_gb_limit", "memory_gb")):
        if config.get(limit, math.inf) < config.get(request, 0):
            raise InvalidArgument(f"{limit} must be at least {request} ({config[request]:g}), got {config[limit]:g}.")
    return config


def changed_config(config: Config, changes: Config) -> dict[str, Any]:
    """Merge changes; None restores the default. Old parameters that conflict with a change are dropped."""
    kept = dict(config)
    if changes.get("num_replicas") is not None:
        kept = {name: value for name, value in kept.items() if not name.startswith("autoscale_")}
    if changes.get("autoscale_enabled"):
        kept.pop("num_replicas", None)
    if changes.get("token_auth_enabled"):
        kept.pop("auth_enabled", None)
    if changes.get("auth_enabled"):
        kept.pop("token_auth_enabled", None)
    return {name: value for name, value in {**kept, **changes}.items() if value is not None}


def asks_for_tokens(config: Config) -> bool:
    return bool(config.get("token_auth_enabled"))


def asks_for_keys(type: ServiceType, config: Config) -> bool:
    return not asks_for_tokens(config) and bool(config.get("auth_enabled", type is ServiceType.AKS))


def plan_serving(
    type: ServiceType, config: Config, *, machine: Machine, own_variables: Mapping[str, str], request_bytes: int
) -> ServingPlan:
    """Turn a checked deploy_configuration into a ServingPlan. `own_variables`: those of the user's environment."""
    notes: list[str] = []
    variables = {**_threads(config), **_gpus(config, machine, notes)}
    return ServingPlan(
        scale=_scale(type, config, machine, own_variables),
        limits=_limits(type, config, own_variables, request_bytes),
        auth_enabled=asks_for_keys(type, config),
        token_auth_enabled=asks_for_tokens(config),
        variables=variables,
        notes=tuple(notes),
    )


def _check_scale(config: Config) -> None:
    scales = [name for name in config if name.startswith("autoscale_") and name != "autoscale_enabled"]
    is_on = config.get("autoscale_enabled")
    if "num_replicas" in config and (is_on or scales):
        raise InvalidArgument(
            f"num_replicas and {'autoscale_enabled' if is_on else scales[0]} cannot both be given.",
            hint="num_replicas is for a fixed number of workers.",
        )
    if is_on is False and scales:
        raise InvalidArgument(f"{scales[0]} is given, but autoscale_enabled is False.", hint="Leave one of them out.")
    least, most = config.get("autoscale_min_replicas", 1), config.get("autoscale_max_replicas", MOST_REPLICAS)
    if least > most:
        raise InvalidArgument(f"autoscale_min_replicas ({least}) is above autoscale_max_replicas ({most}).")


def _check_admission(type: ServiceType, config: Config) -> None:
    if config.get("auth_enabled") and config.get("token_auth_enabled"):
        raise InvalidArgument("auth_enabled and token_auth_enabled cannot both be True.", hint="Choose keys or tokens.")
    for name in ("primary_key", "secondary_key"):
        if name in config and not asks_for_keys(type, config):
            raise InvalidArgument(f"{name} is given, but no key is asked for.", hint="Pass auth_enabled=True.")


def _check_tls(config: Config) -> None:
    """Whether the key fits the certificate is checked when the port is opened."""
    for name in ("ssl_cert_pem", "ssl_key_pem"):
        if config.get("ssl_enabled") and name not in config:
            raise InvalidArgument(
                f"ssl_enabled is True, but {name}_file is not given.", hint="TLS needs the certificate and its key."
            )


def _check_pairs(config: Config) -> None:
    """Azure ML refuses these parameters one without the other; they have no effect here."""
    for names in (("vnet_name", "subnet_name"), ("cmk_vault_base_url", "cmk_key_name", "cmk_key_version")):
        missing = [name for name in names if name not in config]
        if missing and len(missing) < len(names):
            given = next(name for name in names if name in config)
            raise InvalidArgument(f"{given} is given and {missing[0]} is not.", hint="Give both or neither.")


def _scale(type: ServiceType, config: Config, machine: Machine, own_variables: Mapping[str, str]) -> Scale:
    at_once = config.get("replica_max_concurrent_requests", 1)
    least = most = config.get("num_replicas") or _from_variable(own_variables, "WORKER_COUNT", MOST_REPLICAS) or 1
    is_autoscaled = type is ServiceType.AKS and config.get("autoscale_enabled", "num_replicas" not in config)
    if is_autoscaled:
        least = config.get("autoscale_min_replicas", least)
        usual = max(least, min(AKS_MOST_REPLICAS, machine.cores))
        most = max(least, config.get("autoscale_max_replicas", usual))
        least = min(least, most)
    return Scale(
        least=least,
        most=most,
        target_utilization=config.get("autoscale_target_utilization", 70),
        refresh_seconds=config.get("autoscale_refresh_seconds", 1.0),
        requests_at_once=at_once,
    )


def _limits(type: ServiceType, config: Config, own_variables: Mapping[str, str], request_bytes: int) -> ServingLimits:
    usual = ServingLimits()
    memory = config.get("memory_gb_limit", config.get("memory_gb", 0.0))
    if type is ServiceType.AKS:
        scoring = config.get("scoring_timeout_ms", AKS_SCORING_MS) / 1000
        waiting = config.get("max_request_wait_time", AKS_WAIT_MS) / 1000
    else:
        scoring = _from_variable(own_variables, "WORKER_TIMEOUT", MOST_SECONDS) or SCORING_SECONDS
        waiting = usual.queue_seconds
    return ServingLimits(
        request_bytes=request_bytes,
        scoring_seconds=float(scoring),
        queue_seconds=waiting,
        queued_bytes=max(usual.queued_bytes, 2 * request_bytes),
        memory_bytes=int(memory * GB),
    )


def _threads(config: Config) -> dict[str, str]:
    cores = config.get("cpu_cores_limit", config.get("cpu_cores"))
    return {} if cores is None else dict.fromkeys(THREAD_VARIABLES, str(math.ceil(cores)))


def _gpus(config: Config, machine: Machine, notes: list[str]) -> dict[str, str]:
    """Hide GPUs that are not asked for: some frameworks allocate memory on every visible GPU."""
    count = config.get("gpu_cores", 0)
    if count > len(machine.gpus):
        notes.append(f"gpu_cores is {count}, but this machine has {len(machine.gpus)} GPUs.")
    return {"CUDA_VISIBLE_DEVICES": ",".join(machine.gpus[:count])}


def _from_variable(variables: Mapping[str, str], name: str, most: int) -> int:
    """0 when it is not set."""
    text = str(variables.get(name, "")).strip()
    if not text:
        return 0
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and 1 <= int(text) <= most):
        raise InvalidArgument(
            f"The environment variable {name} must be a whole number from 1 to {most}, got {text[:80]!a}."
        )
    return int(text)
