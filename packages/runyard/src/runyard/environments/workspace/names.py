import hashlib
import json
import threading
from collections.abc import Mapping

from runyard.core.definitions.environment import EnvironmentDefinition
from runyard.core.definitions.fields import NOTHING, JsonObject, JsonValue, as_object
from runyard.core.lookups import find_asset
from runyard.core.ports.clock import Clock
from runyard.core.ports.stores import AssetStore
from runyard.core.principal import Principal
from runyard.core.records.assets import Asset, AssetKind

AUTOSAVE = "Autosave_"
CURATED_PREFIX = "AzureML-"
_NAMING = ("name", "version")


class EnvironmentNames:
    """Names the environments of runs, so that they can be found again.

    A registered environment keeps its name and version; any other is saved as `Autosave_TIME_HASH`, once for the same
    content.
    """

    def __init__(self, assets: AssetStore, clock: Clock) -> None:
        self._assets, self._clock = assets, clock
        self._lock = threading.Lock()
        self._autosaved: dict[str, dict[str, str]] = {}

    def named(self, who: Principal, workspace: str, environment: EnvironmentDefinition) -> EnvironmentDefinition:
        """The environment with `name` and `version`. A named one that is not registered keeps its name; its version is
        the autosave name."""
        name = environment.name
        if name.startswith(CURATED_PREFIX):
            return environment
        digest = _digest(environment.raw)
        registered = self._registered(workspace, name, environment.version, digest) if name else None
        if registered is not None:
            return environment.called(name, str(registered.version))
        saved = self._autosave(who, workspace, environment, digest)
        return environment.called(name, saved) if name else environment.called(saved, "1")

    def saved(self, workspace: str, environment: EnvironmentDefinition) -> Asset | None:
        """The asset that belongs to a result of `named`; None if there is none."""
        name, version = environment.name, environment.version
        if version.startswith(AUTOSAVE):
            name, version = version, "1"
        return self._get(workspace, name, int(version)) if name and _is_number(version) else None

    def _registered(self, workspace: str, name: str, version: str, digest: str) -> Asset | None:
        number = int(version) if _is_number(version) else None
        for wanted in dict.fromkeys((number, None)):
            found = self._get(workspace, name, wanted)
            if found is not None and _digest(found.body) == digest:
                return found
        return None

    def _autosave(self, who: Principal, workspace: str, environment: EnvironmentDefinition, digest: str) -> str:
        with self._lock:
            known = self._autosaved.get(workspace)
            if known is None:
                known = self._autosaved[workspace] = self._listed(workspace)
            name = known.get(digest)
            if name is not None and self._get(workspace, name, 1) is not None:
                return name
            name = f"{AUTOSAVE}{self._clock.now():%Y-%m-%dT%H:%M:%SZ}_{digest[:8]}"
            body = environment.called(name, "1").raw
            self._assets.add(workspace, AssetKind.ENVIRONMENT, name, body, {}, who.name)
            known[digest] = name
            return name

    def _listed(self, workspace: str) -> dict[str, str]:
        listed = self._assets.list(workspace, AssetKind.ENVIRONMENT, latest_only=True)
        return {_digest(asset.body): asset.name for asset in listed if asset.name.startswith(AUTOSAVE)}

    def _get(self, workspace: str, name: str, version: int | None) -> Asset | None:
        return find_asset(self._assets, workspace, AssetKind.ENVIRONMENT, name, version)


def _digest(environment: JsonObject) -> str:
    """Hash of the content. Null fields are ignored, and so is the base image if there is a Dockerfile."""
    content = {name: value for name, value in environment.items() if name not in _NAMING}
    docker = dict(as_object(content.get("docker") or NOTHING, "environment.docker"))
    if docker.get("baseDockerfile") or docker.get("buildContext"):
        docker.pop("baseImage", None)
    return hashlib.sha256(
        json.dumps(_without_nulls({**content, "docker": docker}), sort_keys=True).encode()
    ).hexdigest()


def _without_nulls(value: JsonValue) -> JsonValue:
    if isinstance(value, Mapping):
        kept = {name: _without_nulls(one) for name, one in value.items()}
        return {name: one for name, one in kept.items() if one is not None and one != {}}
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value


def _is_number(version: str) -> bool:
    return version.isascii() and version.isdecimal() and len(version) < 10
