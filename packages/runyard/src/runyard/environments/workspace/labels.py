import re
import threading
from collections.abc import Sequence

from runyard.access.authorization import Access
from runyard.assets.workspaces import Workspaces
from runyard.core.errors import Conflict, InvalidArgument, NotFound
from runyard.core.policy import Action
from runyard.core.ports.stores import AssetStore
from runyard.core.principal import Principal
from runyard.core.records.assets import Asset, AssetKind
from runyard.core.records.environments import LABEL_TAG

LATEST = "latest"
MOST_LABELS = 100
TRIES_AGAINST_OTHER_WRITERS = 20
_KIND = AssetKind.ENVIRONMENT
_LABEL = re.compile(r"[A-Za-z0-9][\w.-]{0,127}", re.ASCII)


class EnvironmentLabels:
    """Labels of environment versions. A label belongs to one version; setting it on another moves it."""

    def __init__(self, assets: AssetStore, workspaces: Workspaces, access: Access) -> None:
        self._assets, self._workspaces, self._access = assets, workspaces, access
        self._writing = threading.Lock()

    def find(self, who: Principal, workspace: str, name: str, label: str) -> Asset:
        """The version with the label; "latest" is the newest. Raises NotFound with the known labels."""
        self._workspaces.enter(who, Action.READ_ASSET, workspace)
        versions = self._assets.list(workspace, _KIND, name)
        if not versions:
            raise NotFound(f"There is no environment {name!r} in workspace {workspace!r}.")
        if label.lower() == LATEST:
            return versions[0]
        for version in versions:
            if label in labels_of(version):
                return version
        known = sorted({LATEST, *(one for version in versions for one in labels_of(version))})
        raise NotFound(f"The environment {name!r} has no label {ascii(label)[:80]}. Known: {', '.join(known)}.")

    def put(self, who: Principal, workspace: str, name: str, version: int | None, labels: Sequence[str]) -> None:
        """Replace the labels of a version, by default the newest. Moving a label also changes its old version."""
        self._access.right(who, Action.CHANGE_ASSET)
        self._access.workspace(who, Action.READ_ASSET, workspace)
        wanted = _checked(labels)
        with self._writing:
            chosen = self._assets.get(workspace, _KIND, name, version)
            changes = [
                (one, keeps)
                for one in self._assets.list(workspace, _KIND, name)
                if sorted(keeps := _kept(one, chosen, wanted)) != labels_of(one)
            ]
            for one, _ in changes:
                self._access.asset(who, Action.CHANGE_ASSET, one)
            for one, keeps in changes:
                self._write(one, keeps)

    def _write(self, asset: Asset, labels: Sequence[str]) -> None:
        for _ in range(TRIES_AGAINST_OTHER_WRITERS):
            others = {name: value for name, value in asset.tags.items() if not name.startswith(LABEL_TAG)}
            tags = {**others, **{f"{LABEL_TAG}{label}": "" for label in labels}}
            if tags == dict(asset.tags):
                return
            try:
                self._assets.replace(asset, asset.body, tags)
            except Conflict:
                asset = self._assets.get(asset.workspace, _KIND, asset.name, asset.version)
                continue
            return
        raise Conflict(f"{asset.name!r} is being changed by others all the time.", hint="Try again.")


def _kept(one: Asset, chosen: Asset, wanted: Sequence[str]) -> Sequence[str]:
    return wanted if one.version == chosen.version else [had for had in labels_of(one) if had not in wanted]


def labels_of(asset: Asset) -> list[str]:
    return sorted(name.removeprefix(LABEL_TAG) for name in asset.tags if name.startswith(LABEL_TAG))


def _checked(labels: Sequence[str]) -> list[str]:
    if len(labels) > MOST_LABELS:
        raise InvalidArgument(f"labels has {len(labels)} entries; at most {MOST_LABELS} are taken.")
    for label in labels:
        if not _LABEL.fullmatch(label):
            raise InvalidArgument(
                f"labels has {ascii(label)[:80]}.", hint="Use letters, digits, '_', '-' and '.', at most 128."
            )
    return [label for label in dict.fromkeys(labels) if label.lower() != LATEST]
