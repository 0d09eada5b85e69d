from collections.abc import Callable, Sequence

from runyard.core.definitions.assets import ModelDefinition
from runyard.core.policy import Action
from runyard.core.principal import Principal
from runyard.errors import InvalidArgument, NotFound
from runyard.model.assets import Asset, AssetKind
from runyard.model.runs import RunId, RunRecord
from runyard.model.web_services import ServedModel
from runyard.planning.origin import Origin
from runyard.planning.web_services.web_service import DeployedModel
from runyard.ports.stores import AssetStore, RunStore
from runyard.services.access import Access

MOST_MODELS = 100
PythonOf = Callable[[RunRecord], str]
"""Minor version of the Python of a run; "" when it is not known."""


class ServableModels:
    """Looks up registered models for deployment."""

    def __init__(self, assets: AssetStore, runs: RunStore, access: Access, python_of: PythonOf) -> None:
        self._assets, self._runs, self._access, self._python_of = assets, runs, access, python_of

    def find(self, who: Principal, workspace: str, names: Sequence[str]) -> tuple[DeployedModel, ...]:
        """`names` are NAME:VERSION, or NAME for the newest. Raises NotFound, InvalidArgument."""
        if len(names) > MOST_MODELS:
            raise InvalidArgument(f"models has {len(names)} entries; one web service serves at most {MOST_MODELS}.")
        found = [self._access.asset(who, Action.READ_ASSET, self._registered(workspace, name)) for name in names]
        if len({asset.id for asset in found}) < len(found):
            raise InvalidArgument("models names one model twice.", hint="Give each once.")
        return tuple(self._deployed(asset) for asset in found)

    def _registered(self, workspace: str, id: str) -> Asset:
        name, colon, version = id.partition(":")
        if colon and not (version.isascii() and version.isdecimal() and len(version) < 10):
            raise InvalidArgument(f"{ascii(id)[:80]} is no model: it takes NAME:VERSION.")
        try:
            return self._assets.get(workspace, AssetKind.MODEL, name, int(version) if colon else None)
        except NotFound:
            raise NotFound(
                f"There is no model {ascii(id)[:200]} in workspace {workspace!r} (ModelNotFound).",
                hint="Model.list(workspace) names those there are.",
            ) from None

    def _deployed(self, asset: Asset) -> DeployedModel:
        model = ModelDefinition(asset.body)
        return DeployedModel(
            served=ServedModel(asset.name, asset.version, model.files),
            framework=model.framework,
            framework_version=model.framework_version,
            origin=self._origin(asset.workspace, model),
            resources=model.resources,
        )

    def _origin(self, workspace: str, model: ModelDefinition) -> Origin | None:
        """Packages that made the model: from its run's lock, else from the client that registered it."""
        if model.run_id:
            try:
                run = self._runs.get(RunId(model.run_id))
            except NotFound:
                run = None
            if run is not None and run.workspace == workspace and run.environment_lock:
                return Origin.of_lock(self._python_of(run), run.environment_lock, run.id)
        return Origin.of_client(model.client) if model.client is not None else None
