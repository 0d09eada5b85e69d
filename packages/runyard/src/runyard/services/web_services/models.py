from collections.abc import Callable, Sequence

from runyard.errors import InvalidArgument, NotFound
from runyard.model.assets import Asset, AssetKind
from runyard.model.runs import RunId, RunRecord
from runyard.model.web_services import ServedModel
from runyard.planning.origin import Origin
from runyard.planning.web_services.web_service import DeployedModel, file_entries
from runyard.ports.stores import AssetStore, RunStore

MOST_MODELS = 100
PythonOf = Callable[[RunRecord], str]
"""The minor version of the Python that a run had, "" where it is not known."""


class ServableModels:
    """Registered models as web services serve them."""

    def __init__(self, assets: AssetStore, runs: RunStore, python_of: PythonOf) -> None:
        self._assets, self._runs, self._python_of = assets, runs, python_of

    def find(self, workspace: str, names: Sequence[str]) -> tuple[DeployedModel, ...]:
        """By NAME:VERSION, or NAME for the newest. Raises NotFound, InvalidArgument."""
        if len(names) > MOST_MODELS:
            raise InvalidArgument(f"models has {len(names)} entries; one web service serves at most {MOST_MODELS}.")
        found = [self._registered(workspace, name) for name in names]
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
        body = asset.body
        wanted = ("cpu", "memory_in_gb", "gpu")
        return DeployedModel(
            served=ServedModel(asset.name, asset.version, file_entries(body.get("files") or ())),
            framework=str(body.get("framework") or ""),
            framework_version=str(body.get("framework_version") or ""),
            origin=self._origin(asset.workspace, body.get("run_id"), body.get("client")),
            resources={name: body[name] for name in wanted if body.get(name) is not None},
        )

    def _origin(self, workspace: str, run_id: object, client: object) -> Origin | None:
        """The run's lock tells best what a model needs; else whoever registered it does."""
        if isinstance(run_id, str) and run_id:
            try:
                run = self._runs.get(RunId(run_id))
            except NotFound:
                run = None
            if run is not None and run.workspace == workspace and run.environment_lock:
                return Origin.of_lock(self._python_of(run), run.environment_lock, run.id)
        return Origin.of_client(client) if isinstance(client, dict) else None
