import hashlib
import json
import threading
from collections.abc import Mapping

from runyard.core.definitions.environment import EnvironmentDefinition
from runyard.core.definitions.fields import NOTHING, JsonObject, JsonValue, as_object
from runyard.core.principal import Principal
from runyard.errors import NotFound
from runyard.model.assets import Asset, AssetKind
from runyard.ports.clock import Clock
from runyard.ports.stores import AssetStore

AUTOSAVE = "Autosave_"
CURATED_PREFIX = "AzureML-"
_NAMING = ("name", "version")


class EnvironmentNames:
    """Gives every environment that runs a name and a version by which it can be had again: those it is registered
    under, or else `Autosave_TIME_HASH`, which one of the same content has already or gets now."""

    def __init__(self, assets: AssetStore, clock: Clock) -> None:
        self._assets, self._clock = assets, clock
        self._lock = threading.Lock()
        self._autosaved: dict[str, dict[str, str]] = {}

    def named(self, who: Principal, workspace: str, environment: EnvironmentDefinition) -> EnvironmentDefinition:
        """The environment with `name` and `version`. One that has a name keeps it; where it is not registered so, its
        version is the name that it was saved under."""
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
        """The asset that `named` gave the environment its name and version of."""
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
        try:
            return self._assets.get(workspace, AssetKind.ENVIRONMENT, name, version)
        except NotFound:
            return None


def _digest(environment: JsonObject) -> str:
    """The same for environments that mean the same: what is null need not be there, and a Dockerfile leaves no choice
    of a base image."""
    content = {name: value for name, value in environment.items() if name not in _NAMING}
    docker = dict(as_object(content.get("docker") or NOTHING, "environment.docker"))
    if docker.get("baseDockerfile") or docker.get("buildContext"):
        docker.pop("baseImage", None)
    return hashlib.sha256(json.dumps(_said({**content, "docker": docker}), sort_keys=True).encode()).hexdigest()


def _said(value: JsonValue) -> JsonValue:
    if isinstance(value, Mapping):
        kept = {name: _said(one) for name, one in value.items()}
        return {name: one for name, one in kept.items() if one is not None and one != {}}
    return [_said(one) for one in value] if isinstance(value, list) else value


def _is_number(version: str) -> bool:
    return version.isascii() and version.isdecimal() and len(version) < 10
