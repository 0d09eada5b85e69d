import re
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from runyard.errors import Conflict, NotFound
from runyard.model.assets import AssetKind
from runyard.model.runs import RunRecord
from runyard.ports.stores import AssetStore
from runyard.services.environment_names import EnvironmentNames

KEY_TAG = "runyard.key"
"""A tag of a stored environment: the key under which this machine has it."""
_KEY = re.compile(r"[0-9a-f]{24}")
MOST_REMEMBERED = 10_000
ImageOf = Callable[[str], Mapping[str, Any] | None]
"""From the key of a built environment to what is known of its image; None where it has none, or is not there."""


class BuiltEnvironments:
    """Which of the built environments each stored one has become."""

    def __init__(self, assets: AssetStore, names: EnvironmentNames, image_of: ImageOf) -> None:
        self._assets, self._names, self._image_of = assets, names, image_of
        self._noted: dict[tuple[str, str, str], str] = {}
        self._lock = threading.Lock()

    def note(self, run: RunRecord, key: str) -> None:
        """The run's environment has that key. Costs nothing where that is known. A key that is none, which a node may
        have told, is none of ours."""
        if not _KEY.fullmatch(key):
            return
        environment = run.definition.get("environment") or {}
        which = (run.workspace, str(environment.get("name")), str(environment.get("version")))
        with self._lock:
            if self._noted.get(which) == key:
                return
            if len(self._noted) >= MOST_REMEMBERED:
                self._noted.clear()
            self._noted[which] = key
            asset = self._names.saved(run.workspace, environment)
            if asset is not None and asset.tags.get(KEY_TAG) != key:
                with suppress(Conflict, NotFound):  # somebody tags it at this moment: the next run notes it again
                    self._assets.replace(asset, asset.body, {**asset.tags, KEY_TAG: key})

    def image(self, workspace: str, name: str, version: int | None) -> Mapping[str, Any]:
        """Of the environment's image. Raises NotFound where it is not built, or no image."""
        asset = self._assets.get(workspace, AssetKind.ENVIRONMENT, name, version)
        found = self._image_of(asset.tags.get(KEY_TAG, ""))
        if found is None:
            raise NotFound(
                f"There is no image of the environment {name}:{asset.version} on this machine.",
                hint="Build it with environment.build(workspace), or submit a run with it. An environment without a "
                "base image or Dockerfile of your own is a virtual environment, and has none.",
            )
        return found
