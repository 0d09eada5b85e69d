import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from runyard.errors import InvalidArgument, NotFound
from runyard.listen_settings import is_loopback
from runyard.model.assets import Asset, AssetKind
from runyard.model.names import check_asset_name
from runyard.model.plan import EnvironmentSpec
from runyard.model.web_services import Listening, Scorer, ServiceSpec, ServiceType
from runyard.planning.plan_json import environment_from_json, environment_to_json
from runyard.planning.web_services.endpoint import Version, shares
from runyard.planning.web_services.service_config import Machine, Serving, checked_config
from runyard.planning.web_services.service_parameters import SECRETS
from runyard.planning.web_services.web_service import (
    Credentials,
    Deployment,
    Workplace,
    checked_inference,
    file_entries,
    service_spec,
    serving_of_deployment,
    workplace_of,
)
from runyard.ports.blobs import BlobStore
from runyard.ports.stores import AssetStore
from runyard.services.incoming_environments import IncomingEnvironments
from runyard.services.package_settings import WorkspacePackages
from runyard.services.private_addresses import PrivateAddresses
from runyard.services.snapshots import checked_entries, require_blobs
from runyard.services.web_services.models import ServableModels
from runyard.services.web_services.versions import VERSIONS, is_version, stored, versions_in

Body = Mapping[str, Any]
NOBODY = Credentials("", "", "")


@dataclass(frozen=True)
class Draft:
    """A web service's body, as far as a deployment says it, and what of it is secret."""

    body: Body
    secrets: Body


class Blueprints:
    """Checks deployments, and turns those that were stored into what the gateway runs. Writes nothing."""

    def __init__(
        self,
        assets: AssetStore,
        models: ServableModels,
        blobs: BlobStore,
        incoming: IncomingEnvironments,
        packages: WorkspacePackages,
        addresses: PrivateAddresses,
        listening: Listening,
        machine: Machine,
    ) -> None:
        self._assets, self._models, self._blobs = assets, models, blobs
        self._incoming, self._packages, self._addresses = incoming, packages, addresses
        self._listening, self._machine = listening, machine

    @property
    def surroundings(self) -> str:
        """Another text whenever the operator's settings or the machine have changed what specs come to."""
        said = repr((vars(self._listening), self._machine))
        return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def draft(self, workspace: str, definition: Body) -> Draft:
        """Of type, models, inference, config, image_id and submitter. Raises what the user is to know: InvalidArgument,
        NotFound, BlobsMissing."""
        given = self._with_image(workspace, definition)
        type = service_type(given.get("type"))
        config = checked_config(type, given.get("config") or {})
        inference = self._checked_inference(workspace, given.get("inference"))
        models = self._models.find(workspace, _names(given.get("models") or ()))
        deployment = Deployment(type, models, config, inference, _checked_submitter(given.get("submitter") or {}))
        workplace = self._workplace(workspace, deployment)
        serving = serving_of_deployment(deployment, self._machine, self._listening.request_bytes)
        notes = [*workplace.environment.notes, *serving.notes, *self._open_to_all(serving)]
        body = {
            "type": type.value,
            "models": [f"{model.served.name}:{model.served.version}" for model in models],
            "inference": inference,
            "config": {name: value for name, value in config.items() if name not in SECRETS},
            "image_id": given.get("image_id"),
            "submitter": dict(deployment.submitter),
            "scorer": workplace.scorer.value,
            "environment": environment_to_json(workplace.environment),
            "surroundings": self.surroundings,
            "notes": notes,
        }
        return Draft(body, {name: config[name] for name in SECRETS & config.keys()})

    def endpoint_draft(self, config: Body, versions: Sequence[Version]) -> Draft:
        """Of an endpoint, which has a port and keys; its versions have all else."""
        checked = checked_config(ServiceType.AKS, config)
        serving = serving_of_deployment(
            Deployment(ServiceType.AKS, (), checked), self._machine, self._listening.request_bytes
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
            "surroundings": self.surroundings,
            "notes": self._open_to_all(serving),
            VERSIONS: stored(versions),
        }
        return Draft(body, {name: checked[name] for name in SECRETS & checked.keys()})

    def checked_image(self, workspace: str, body: Body) -> Body:
        """Models and inference of an image, checked and kept as a deployment's are."""
        given = {"type": ServiceType.ACI.value, "models": body.get("models"), "inference": body.get("inference")}
        kept = self.draft(workspace, given).body
        return {"models": kept["models"], "inference": kept["inference"]}

    def spec(self, service: Asset, credentials: Credentials) -> ServiceSpec:
        """Raises NotFound where a model is gone."""
        body = service.body
        identity = {"id": service.id, "workspace": service.workspace, "name": service.name}
        counts = {"revision": body["revision"], "generation": body["generation"]}
        made = self._spec(service.workspace, body, {**identity, **counts}, credentials)
        return replace(made, versions=shares(versions_in(service)), is_version=is_version(service))

    def require_models(self, workspace: str, names: Sequence[str]) -> None:
        """Raises NotFound for one that is not there."""
        self._models.find(workspace, names)

    def plan(self, workspace: str, name: str, definition: Body) -> ServiceSpec:
        """What a deployment would run, with nothing deployed."""
        draft = self.draft(workspace, {"type": ServiceType.LOCAL.value, "config": {}, **definition})
        identity = {"id": "", "workspace": workspace, "name": name, "revision": 1, "generation": 1}
        return self._spec(workspace, draft.body, identity, NOBODY)

    def _spec(self, workspace: str, body: Body, identity: Body, credentials: Credentials) -> ServiceSpec:
        deployment = Deployment(
            service_type(body["type"]),
            self._models.find(workspace, body["models"]),
            body["config"],
            body["inference"],
            body["submitter"],
        )
        workplace = Workplace(Scorer(body["scorer"]), environment_from_json(dict(body["environment"])))
        made = service_spec(
            deployment,
            workplace,
            identity=identity,
            credentials=credentials,
            listening=self._listening,
            machine=self._machine,
        )
        addresses = self._addresses.of(workspace, environment_to_json(workplace.environment))
        return replace(made, packages=self._packages.get(workspace), addresses=addresses)

    def _open_to_all(self, serving: Serving) -> list[str]:
        if is_loopback(self._listening.host) or serving.auth_enabled or serving.token_auth_enabled:
            return []
        return ["Whoever reaches this machine can ask it: auth_enabled is False."]

    def _workplace(self, workspace: str, deployment: Deployment) -> Workplace:
        try:
            found = workplace_of(deployment, self._machine)
            sources = self._packages.sources(workspace, deployment.build_variables)
            return replace(found, environment=replace(found.environment, sources=sources))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InvalidArgument(
                f"The environment of the inference_config is not put together as one: {error}.",
                hint="Send it as Environment makes it.",
            ) from error

    def _checked_inference(self, workspace: str, given: Any) -> dict[str, Any] | None:
        if given is None:
            return None
        if not isinstance(given, Mapping):
            raise InvalidArgument("inference must be an object.", hint="Send it as InferenceConfig does.")
        entries = checked_entries(file_entries(given.get("files") or ()))
        rows = [[entry.path, entry.sha256, entry.size, entry.mode] for entry in entries]
        inference = checked_inference({**given, "files": rows})
        require_blobs(self._blobs, entries)
        if inference["environment"] is not None:
            inference["environment"] = self._incoming.taken(workspace, inference["environment"])
        return inference

    def _with_image(self, workspace: str, definition: Body) -> Body:
        """An image brings its models and its script, where the deployment does not say them itself."""
        image_id = definition.get("image_id")
        if not image_id:
            return definition
        name, _, version = str(image_id).partition(":")
        is_version = version.isascii() and version.isdecimal() and len(version) < 10
        try:
            check_asset_name(AssetKind.IMAGE, name)
            image = self._assets.get(workspace, AssetKind.IMAGE, name, int(version) if is_version else None)
        except NotFound:
            raise NotFound(f"There is no image {image_id!r} in workspace {workspace!r}.") from None
        given = {key: value for key, value in definition.items() if value}
        brought = {key: image.body.get(key) for key in ("models", "inference")}
        return {**brought, **given, "image_id": f"{name}:{image.version}"}


def service_type(word: Any) -> ServiceType:
    for known in ServiceType:
        if isinstance(word, str) and word.lower() == known.value.lower():
            return known
    raise InvalidArgument(f"type must be one of {', '.join(ServiceType)}, got {ascii(word)[:80]}.")


def _checked_submitter(given: Mapping[str, Any]) -> dict[str, Any]:
    variables = given.get("variables") or {}
    if not isinstance(variables, Mapping) or not all(isinstance(name, str) for name in variables):
        raise InvalidArgument("variables of the submitter must be an object.", hint="Send them as the SDK does.")
    told = {name: str(given.get(name) or "") for name in ("python", "python_version", "user")}
    return {**told, "variables": variables}


def _names(given: Any) -> Sequence[str]:
    if not isinstance(given, list | tuple) or not all(isinstance(name, str) for name in given):
        raise InvalidArgument("models must be a list of NAME:VERSION.")
    return given
