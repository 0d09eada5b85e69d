"""Turns a deployment into the ServiceSpec that the gateway runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

from runyard.core.definitions.deployment import InferenceConfig
from runyard.core.definitions.run import UNKNOWN_SUBMITTER, Submitter
from runyard.core.errors import InvalidArgument
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.core.records.web_services import ListenDefaults, Scorer, ServedModel, ServiceAuth, ServiceSpec, ServiceType
from runyard.core.submitter_variables import inherited_variables
from runyard.environments.recorded_packages import RecordedPackages
from runyard.serving.deployments.config import Machine, ServingPlan, plan_serving
from runyard.serving.deployments.worker_environment import no_code_environment, script_environment

SCORE = "/score"


@dataclass(frozen=True)
class DeployedModel:
    """A registered model with its framework and the environment that made it."""

    served: ServedModel
    framework: str = ""
    framework_version: str = ""
    origin: RecordedPackages | None = None
    resources: Mapping[str, Any] = field(default_factory=dict)
    """Given values of cpu, memory_in_gb and gpu of its resource_configuration."""


@dataclass(frozen=True)
class WorkerRuntime:
    """Scorer and environment of the workers."""

    scorer: Scorer
    environment: EnvironmentSpec


@dataclass(frozen=True)
class Credentials:
    """Secrets of a web service."""

    primary: str
    secondary: str
    token_secret: str
    private_key: str = ""


@dataclass(frozen=True)
class ResolvedDeployment:
    """A checked deployment, with its models looked up."""

    type: ServiceType
    models: tuple[DeployedModel, ...]
    config: Mapping[str, Any]
    inference: InferenceConfig | None = None
    submitter: Submitter = UNKNOWN_SUBMITTER

    @property
    def variables(self) -> dict[str, str]:
        """Variables of the user's environment. Raises InvalidArgument for names or values that no process can have."""
        environment = self.inference.environment if self.inference else None
        return dict(environment.variables) if environment else {}

    @property
    def build_variables(self) -> dict[str, str]:
        """Variables of the submitter that environment builds use: a fixed list of names."""
        return inherited_variables(self.submitter)


def worker_runtime(deployment: ResolvedDeployment, machine: Machine) -> WorkerRuntime:
    """Raises InvalidArgument with a message for the user when it cannot be served."""
    gpu_present = bool(machine.gpus) and _config_with_resources(deployment).get("gpu_cores", 0) > 0
    if deployment.inference is None:
        return _without_code(deployment.models, gpu_present)
    frameworks = [(model.framework, model.framework_version, model.origin) for model in deployment.models]
    environment = script_environment(
        deployment.inference.environment,
        gpu_present=gpu_present,
        submitter=deployment.submitter,
        frameworks=frameworks,
    )
    return WorkerRuntime(Scorer.SCRIPT, environment)


def plan_deployment_serving(deployment: ResolvedDeployment, machine: Machine, request_bytes: int) -> ServingPlan:
    return plan_serving(
        deployment.type,
        _config_with_resources(deployment),
        machine=machine,
        own_variables=deployment.variables,
        request_bytes=request_bytes,
    )


def service_spec(
    deployment: ResolvedDeployment,
    workplace: WorkerRuntime,
    *,
    identity: Mapping[str, Any],
    credentials: Credentials,
    listening: ListenDefaults,
    machine: Machine,
) -> ServiceSpec:
    """`identity` has id, workspace, name, revision and generation."""
    config, inference = deployment.config, deployment.inference
    serving = plan_deployment_serving(deployment, machine, listening.request_bytes)
    has_own_certificate = bool(config.get("ssl_enabled"))
    return ServiceSpec(
        **identity,
        type=deployment.type,
        scorer=workplace.scorer,
        models=tuple(model.served for model in deployment.models),
        environment=workplace.environment,
        code=inference.files if inference else (),
        entry_script=inference.entry_script if inference else "",
        framework_version=deployment.models[0].framework_version if deployment.models else "",
        variables={**serving.variables, **deployment.variables},
        build_variables=deployment.build_variables,
        port=config.get("port", 0),
        host=listening.host,
        host_names=(*listening.names, *([config["ssl_cname"]] if config.get("ssl_cname") else [])),
        scoring_path=scoring_path(
            deployment.type, identity["name"], workplace.scorer, [model.served.name for model in deployment.models]
        ),
        admission=_admission(serving, credentials),
        certificate=config["ssl_cert_pem"] if has_own_certificate else listening.certificate,
        private_key=credentials.private_key if has_own_certificate else listening.private_key,
        limits=serving.limits,
        scale=serving.scale,
    )


def needs_new_workers(old: ServiceSpec, new: ServiceSpec) -> bool:
    """Whether the change needs new workers; all other changes apply to running ones."""
    return _worker_fields(old) != _worker_fields(new)


def scoring_path(type: ServiceType, name: str, scorer: Scorer, models: Sequence[str]) -> str:
    """Path of the scoring URL. `models` are names."""
    if scorer is Scorer.TENSORFLOW:
        return f"/v1/models/{quote(models[0], safe='')}:predict"
    return f"/api/v1/service/{name}{SCORE}" if type is ServiceType.AKS else SCORE


def _worker_fields(spec: ServiceSpec) -> tuple[object, ...]:
    code = (spec.scorer, spec.models, spec.code, spec.entry_script, spec.framework_version)
    environment = replace(spec.environment, notes=())
    return (*code, environment, dict(spec.variables), spec.scale.requests_at_once)


def _without_code(models: Sequence[DeployedModel], gpu_present: bool) -> WorkerRuntime:
    if len(models) != 1:
        raise InvalidArgument(
            f"Without an inference_config exactly one model is deployed, got {len(models)}.",
            hint="Pass an inference_config with a scoring script for several.",
        )
    model = models[0]
    scorer, environment = no_code_environment(
        model.framework, model.framework_version, gpu_present=gpu_present, origin=model.origin
    )
    return WorkerRuntime(scorer, environment)


def _config_with_resources(deployment: ResolvedDeployment) -> dict[str, Any]:
    """The deploy_configuration; for a model without code, its resource_configuration fills in what is missing."""
    resources = deployment.models[0].resources if deployment.inference is None and deployment.models else {}
    requested = {"cpu_cores": resources.get("cpu"), "gpu_cores": resources.get("gpu")}
    return {**{name: value for name, value in requested.items() if value is not None}, **deployment.config}


def _admission(serving: ServingPlan, credentials: Credentials) -> ServiceAuth:
    if serving.token_auth_enabled:
        return ServiceAuth(token_secret=credentials.token_secret)
    return ServiceAuth(keys=(credentials.primary, credentials.secondary) if serving.auth_enabled else ())
