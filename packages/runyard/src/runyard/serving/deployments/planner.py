import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from runyard.access.authorization import Access
from runyard.access.blobs import CallerBlobs
from runyard.access.snapshots import checked_entries
from runyard.core.definitions.assets import ImageDefinition
from runyard.core.definitions.deployment import DeploymentSpec, InferenceConfig, service_type
from runyard.core.definitions.run import UNKNOWN_SUBMITTER
from runyard.core.errors import NotFound
from runyard.core.listen_settings import is_loopback
from runyard.core.names import check_asset_name
from runyard.core.plan_json import environment_from_json, environment_to_json
from runyard.core.policy import Action
from runyard.core.ports.stores import AssetStore
from runyard.core.principal import SERVICE, Principal
from runyard.core.records.assets import Asset, AssetKind
from runyard.core.records.launch_plan import EnvironmentSpec
from runyard.core.records.web_services import ListenDefaults, Scorer, ServiceSpec, ServiceType
from runyard.environments.workspace.intake import EnvironmentIntake
from runyard.environments.workspace.package_settings import WorkspacePackages
from runyard.environments.workspace.secrets import PrivateAddresses
from runyard.serving.deployments.config import Machine, ServingPlan, checked_config
from runyard.serving.deployments.parameters import SECRETS
from runyard.serving.deployments.servable_models import ServableModels
from runyard.serving.deployments.service_spec import (
    Credentials,
    ResolvedDeployment,
    WorkerRuntime,
    plan_deployment_serving,
    service_spec,
    worker_runtime,
)
from runyard.serving.deployments.versions import (
    VERSIONS,
    EndpointVersion,
    is_version,
    shares,
    versions_in,
    versions_to_json,
)

Body = Mapping[str, Any]
NO_CREDENTIALS = Credentials("", "", "")


@dataclass(frozen=True)
class DeploymentDraft:
    """Body of a web service's asset, without its counters, and its secrets apart."""

    body: Body
    secrets: Body


class DeploymentPlanner:
    """Checks deployments, and turns stored ones into the ServiceSpec that the gateway runs. Writes nothing."""

    def __init__(
        self,
        assets: AssetStore,
        access: Access,
        models: ServableModels,
        blobs: CallerBlobs,
        incoming: EnvironmentIntake,
        packages: WorkspacePackages,
        addresses: PrivateAddresses,
        listening: ListenDefaults,
        machine: Machine,
    ) -> None:
        self._assets, self._access, self._models, self._blobs = assets, access, models, blobs
        self._incoming, self._packages, self._addresses = incoming, packages, addresses
        self._listening, self._machine = listening, machine

    @property
    def settings_digest(self) -> str:
        """Changes with the operator's settings and the machine: specs made before must be applied again."""
        settings = repr((vars(self._listening), self._machine))
        return hashlib.sha256(settings.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def draft(self, who: Principal, workspace: str, asked: DeploymentSpec) -> DeploymentDraft:
        """Check a deployment of things that the caller may read. Raises InvalidArgument, NotFound, BlobsMissing."""
        given = self._with_image(who, workspace, asked)
        type = given.type or service_type(None)
        config = checked_config(type, given.config)
        inference = None if given.inference is None else self._checked_inference(who, workspace, given.inference)
        models = self._models.find(who, workspace, given.models or ())
        deployment = ResolvedDeployment(type, models, config, inference, given.submitter or UNKNOWN_SUBMITTER)
        runtime = self._runtime(workspace, deployment)
        serving = plan_deployment_serving(deployment, self._machine, self._listening.request_bytes)
        notes = [*runtime.environment.notes, *serving.notes, *self._open_access_notes(serving)]
        body = {
            "type": type.value,
            "models": [f"{model.served.name}:{model.served.version}" for model in models],
            "inference": None if inference is None else inference.to_json(),
            "config": {name: value for name, value in config.items() if name not in SECRETS},
            "image_id": given.image_id,
            "submitter": deployment.submitter.to_json(),
            "scorer": runtime.scorer.value,
            "environment": environment_to_json(runtime.environment),
            "surroundings": self.settings_digest,  # the name in the stored record
            "notes": notes,
        }
        return DeploymentDraft(body, {name: config[name] for name in SECRETS & config.keys()})

    def endpoint_draft(self, config: Body, versions: Sequence[EndpointVersion]) -> DeploymentDraft:
        """Draft of an endpoint: it has a port and keys; all else belongs to its versions."""
        checked = checked_config(ServiceType.AKS, config)
        serving = plan_deployment_serving(
            ResolvedDeployment(ServiceType.AKS, (), checked), self._machine, self._listening.request_bytes
        )
        body = {
            "type": ServiceType.AKS.value,
            "models": [],
            "inference": None,
            "config": {name: value for name, value in checked.items() if name not in SECRETS},
            "image_id": None,
            "submitter": {},
            "scorer": Scorer.SCRIPT.value,
            "environment": environment_to_json(EnvironmentSpec()),
            "surroundings": self.settings_digest,  # the name in the stored record
            "notes": self._open_access_notes(serving),
            VERSIONS: versions_to_json(versions),
        }
        return DeploymentDraft(body, {name: checked[name] for name in SECRETS & checked.keys()})

    def checked_image(self, who: Principal, workspace: str, image: ImageDefinition) -> ImageDefinition:
        """Check models and inference as for a deployment, and return the image as it is stored."""
        body = self.draft(who, workspace, image.deployment).body
        return image.with_fields(models=body["models"], inference=body["inference"])

    def spec(self, service: Asset, credentials: Credentials) -> ServiceSpec:
        """Spec of a stored web service. Raises NotFound when a model was deleted."""
        body = service.body
        identity = {"id": service.id, "workspace": service.workspace, "name": service.name}
        counts = {"revision": body["revision"], "generation": body["generation"]}
        spec = self._spec(service.workspace, body, {**identity, **counts}, credentials)
        return replace(spec, versions=shares(versions_in(service)), is_version=is_version(service))

    def require_models(self, workspace: str, names: Sequence[str]) -> None:
        """Raises NotFound for a model that does not exist."""
        self._models.find(SERVICE, workspace, names)

    def plan(self, who: Principal, workspace: str, name: str, asked: DeploymentSpec) -> ServiceSpec:
        """Spec that a deployment would run; deploys nothing."""
        draft = self.draft(who, workspace, replace(asked, type=asked.type or ServiceType.LOCAL))
        identity = {"id": "", "workspace": workspace, "name": name, "revision": 1, "generation": 1}
        return self._spec(workspace, draft.body, identity, NO_CREDENTIALS)

    def _spec(self, workspace: str, body: Body, identity: Body, credentials: Credentials) -> ServiceSpec:
        spec = DeploymentSpec.parse(body)
        deployment = ResolvedDeployment(
            spec.type or service_type(None),
            self._models.find(SERVICE, workspace, spec.models or ()),
            body["config"],
            spec.inference,
            spec.submitter or UNKNOWN_SUBMITTER,
        )
        runtime = WorkerRuntime(Scorer(body["scorer"]), environment_from_json(dict(body["environment"])))
        planned = service_spec(
            deployment,
            runtime,
            identity=identity,
            credentials=credentials,
            listening=self._listening,
            machine=self._machine,
        )
        addresses = self._addresses.of(workspace, environment_to_json(runtime.environment))
        return replace(planned, packages=self._packages.get(SERVICE, workspace), addresses=addresses)

    def _open_access_notes(self, serving: ServingPlan) -> list[str]:
        if is_loopback(self._listening.host) or serving.auth_enabled or serving.token_auth_enabled:
            return []
        return ["Whoever reaches this machine can ask it: auth_enabled is False."]

    def _runtime(self, workspace: str, deployment: ResolvedDeployment) -> WorkerRuntime:
        runtime = worker_runtime(deployment, self._machine)
        sources = self._packages.sources(workspace, deployment.build_variables)
        return replace(runtime, environment=replace(runtime.environment, sources=sources))

    def _checked_inference(self, who: Principal, workspace: str, given: InferenceConfig) -> InferenceConfig:
        """Check its files and its environment, and return it as it is stored."""
        entries = checked_entries(given.files)
        self._blobs.require(who, entries)
        kept = replace(given, files=tuple(entries))
        if given.environment is None:
            return kept
        return replace(kept, environment=self._incoming.accept(who, workspace, given.environment))

    def _with_image(self, who: Principal, workspace: str, asked: DeploymentSpec) -> DeploymentSpec:
        """Fill in models and script from the image, where the deployment does not give them."""
        image_id = asked.image_id
        if not image_id:
            return asked
        name, _, version = image_id.partition(":")
        is_version = version.isascii() and version.isdecimal() and len(version) < 10
        try:
            check_asset_name(AssetKind.IMAGE, name)
            image = self._assets.get(workspace, AssetKind.IMAGE, name, int(version) if is_version else None)
        except NotFound:
            raise NotFound(f"There is no image {image_id!r} in workspace {workspace!r}.") from None
        self._access.asset(who, Action.READ_ASSET, image)
        of_image = DeploymentSpec.parse({key: image.body.get(key) for key in ("models", "inference")})
        return replace(
            asked,
            models=asked.models or of_image.models,
            inference=asked.inference or of_image.inference,
            image_id=f"{name}:{image.version}",
        )
