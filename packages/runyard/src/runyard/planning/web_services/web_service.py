"""Turns a deployment into the ServiceSpec that the gateway runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

from runyard.core.definitions.deployment import InferenceConfig
from runyard.core.definitions.run import NOBODY, Submitter
from runyard.errors import InvalidArgument
from runyard.model.plan import EnvironmentSpec
from runyard.model.web_services import Admission, Listening, Scorer, ServedModel, ServiceSpec, ServiceType
from runyard.planning.origin import Origin
from runyard.planning.serving_environment import no_code_environment, script_environment
from runyard.planning.submitter_variables import variables_taken_over
from runyard.planning.web_services.service_config import Machine, Serving, serving_of

SCORE = "/score"


@dataclass(frozen=True)
class DeployedModel:
    """A registered model with its framework and the environment that made it."""

    served: ServedModel
    framework: str = ""
    framework_version: str = ""
    origin: Origin | None = None
    resources: Mapping[str, Any] = field(default_factory=dict)
    """Given values of cpu, memory_in_gb and gpu of its resource_configuration."""


@dataclass(frozen=True)
class Workplace:
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
class Deployment:
    """A checked deployment, with its models looked up."""

    type: ServiceType
    models: tuple[DeployedModel, ...]
    config: Mapping[str, Any]
    inference: InferenceConfig | None = None
    submitter: Submitter = NOBODY

    @property
    def variables(self) -> dict[str, str]:
        """Variables of the user's environment. Raises InvalidArgument for names or values that no process can have."""
        environment = self.inference.environment if self.inference else None
        return dict(environment.variables) if environment else {}

    @property
    def build_variables(self) -> dict[str, str]:
        """Variables of the submitter that environment builds use: a fixed list of names."""
        return variables_taken_over(self.submitter)


def workplace_of(deployment: Deployment, machine: Machine) -> Workplace:
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
    return Workplace(Scorer.SCRIPT, environment)


def serving_of_deployment(deployment: Deployment, machine: Machine, request_bytes: int) -> Serving:
    return serving_of(
        deployment.type,
        _config_with_resources(deployment),
        machine=machine,
        own_variables=deployment.variables,
        request_bytes=request_bytes,
    )


def service_spec(
    deployment: Deployment,
    workplace: Workplace,
    *,
    identity: Mapping[str, Any],
    credentials: Credentials,
    listening: Listening,
    machine: Machine,
) -> ServiceSpec:
    """`identity` has id, workspace, name, revision and generation."""
    config, inference = deployment.config, deployment.inference
    serving = serving_of_deployment(deployment, machine, listening.request_bytes)
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


def _without_code(models: Sequence[DeployedModel], gpu_present: bool) -> Workplace:
    if len(models) != 1:
        raise InvalidArgument(
            f"Without an inference_config exactly one model is deployed, got {len(models)}.",
            hint="Pass an inference_config with a scoring script for several.",
        )
    model = models[0]
    scorer, environment = no_code_environment(
        model.framework, model.framework_version, gpu_present=gpu_present, origin=model.origin
    )
    return Workplace(scorer, environment)


def _config_with_resources(deployment: Deployment) -> dict[str, Any]:
    """Without code, the model's resource_configuration fills in what the deploy_configuration leaves out."""
    resources = deployment.models[0].resources if deployment.inference is None and deployment.models else {}
    requested = {"cpu_cores": resources.get("cpu"), "gpu_cores": resources.get("gpu")}
    return {**{name: value for name, value in requested.items() if value is not None}, **deployment.config}


def _admission(serving: Serving, credentials: Credentials) -> Admission:
    if serving.token_auth_enabled:
        return Admission(token_secret=credentials.token_secret)
    return Admission(keys=(credentials.primary, credentials.secondary) if serving.auth_enabled else ())
