import re
import threading
from contextlib import suppress
from pathlib import Path

from runyard.access.authorization import Access
from runyard.core.definitions.fields import JsonObject
from runyard.core.errors import Conflict, NotFound
from runyard.core.policy import Action
from runyard.core.ports.stores import AssetStore
from runyard.core.principal import Principal
from runyard.core.records.assets import AssetKind
from runyard.core.records.environments import KEY_TAG
from runyard.core.records.runs import RunRecord
from runyard.environments.images.built_images import ImageFolder
from runyard.environments.workspace.names import EnvironmentNames

_KEY = re.compile(r"[0-9a-f]{24}")
MOST_REMEMBERED = 10_000
SHOWN_OF_IMAGES = ("name", "id", "registry", "dockerfile", "python")


class BuiltEnvironments:
    """Records which built environment belongs to which stored one."""

    def __init__(self, assets: AssetStore, names: EnvironmentNames, root: Path, access: Access) -> None:
        """`root` is the folder of built environments."""
        self._assets, self._names, self._root, self._access = assets, names, root, access
        self._noted: dict[tuple[str, str, str], str] = {}
        self._lock = threading.Lock()

    def note(self, run: RunRecord, key: str) -> None:
        """Record the key of a run's environment; cheap if it is known. A malformed key, which a node may have sent, is
        ignored."""
        if not _KEY.fullmatch(key):
            return
        environment = run.definition.environment
        which = (run.workspace, environment.name, environment.version)
        with self._lock:
            if self._noted.get(which) == key:
                return
            if len(self._noted) >= MOST_REMEMBERED:
                self._noted.clear()
            self._noted[which] = key
            asset = self._names.saved(run.workspace, environment)
            if asset is not None and asset.tags.get(KEY_TAG) != key:
                with suppress(Conflict, NotFound):  # tagged concurrently: the next run records it
                    self._assets.replace(asset, asset.body, {**asset.tags, KEY_TAG: key})

    def image_of(self, key: str) -> JsonObject | None:
        """Details of the image with that key; None if it is not built or no image."""
        found = ImageFolder(self._root, key).details() if key else None
        return None if found is None else {name: getattr(found, name) for name in SHOWN_OF_IMAGES}

    def image(self, who: Principal, workspace: str, name: str, version: int | None) -> JsonObject:
        """Details of the environment's image. Raises NotFound if it is not built or no image."""
        self._access.workspace(who, Action.READ_ASSET, workspace)
        asset = self._assets.get(workspace, AssetKind.ENVIRONMENT, name, version)
        found = self.image_of(asset.tags.get(KEY_TAG, ""))
        if found is None:
            raise NotFound(
                f"There is no image of the environment {name}:{asset.version} on this machine.",
                hint="Build it with environment.build(workspace), or submit a run with it. An environment without a "
                "base image or Dockerfile of your own is a virtual environment, and has none.",
            )
        return found
