from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from runyard.access.authorization import Access
from runyard.core.definitions.assets import ModelDefinition
from runyard.core.errors import InvalidArgument, NotFound, RunyardError
from runyard.core.policy import Action
from runyard.core.ports.stores import AssetStore, RunStore
from runyard.core.principal import Principal
from runyard.core.records.assets import Asset, AssetKind
from runyard.core.records.runs import RunId, RunRecord
from runyard.core.records.web_services import ServedModel
from runyard.core.submitter_variables import submitter_variables
from runyard.environments.folder import EnvironmentFolder, environment_key
from runyard.environments.lockfile import LockFile
from runyard.environments.planning.environment_spec import plan_environment
from runyard.environments.recorded_packages import RecordedPackages
from runyard.environments.workspace.locks import EnvironmentLocks
from runyard.serving.deployments.service_spec import DeployedModel

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

    def _origin(self, workspace: str, model: ModelDefinition) -> RecordedPackages | None:
        """Packages that made the model: from its run's lock, else from the client that registered it."""
        if model.run_id:
            try:
                run = self._runs.get(RunId(model.run_id))
            except NotFound:
                run = None
            if run is not None and run.workspace == workspace and run.environment_lock:
                return RecordedPackages.of_lock(self._python_of(run), run.environment_lock, run.id)
        return RecordedPackages.of_client(model.client) if model.client is not None else None


class RunPythonVersions:
    """Finds the Python version of a run, from its environment on this machine or on nodes."""

    def __init__(self, root: Path, kept: EnvironmentLocks, sources: Callable[[str, Mapping[str, str]], str]) -> None:
        """`sources` maps a workspace and a submitter's variables to the package sources in an environment's key."""
        self._root, self._kept, self._sources = root, kept, sources

    def __call__(self, run: RunRecord) -> str:
        """A minor version such as "3.7"; "" when it is not known."""
        locked = LockFile.parse(run.environment_lock).python
        if locked:
            return ".".join(locked.split(".")[:2])
        sources = self._sources(run.workspace, submitter_variables(run.definition))
        asked = ""
        for gpu_present in (False, True):
            try:
                spec = plan_environment(run.definition, gpu_present=gpu_present, sources=sources)
            except (RunyardError, AttributeError, KeyError, TypeError, ValueError):  # definition of an older Runyard
                continue
            facts = EnvironmentFolder(self._root, environment_key(spec)).facts()
            found = facts.python_minor if facts else self._kept.python_of(run.workspace, environment_key(spec))
            if found:
                return found
            asked = asked or ("" if spec.user_managed or "," in spec.python else spec.python)
        return ".".join(asked.split(".")[:2])
