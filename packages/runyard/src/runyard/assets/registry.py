import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from runyard.access.authorization import Access
from runyard.assets.workspaces import Workspaces
from runyard.core.definitions.assets import AnyAsset, NewAsset, asset_kind, stored_asset
from runyard.core.definitions.fields import MergePatch, Tags
from runyard.core.errors import Conflict, InvalidArgument, NotFound
from runyard.core.lookups import find_asset
from runyard.core.names import check_asset_name
from runyard.core.policy import Action
from runyard.core.ports.stores import AssetStore
from runyard.core.principal import Principal
from runyard.core.records.assets import Asset, AssetKind
from runyard.core.records.environments import KEY_TAG, LABEL_TAG

D = TypeVar("D", bound=AnyAsset)
TRIES_AGAINST_OTHER_WRITERS = 20


@dataclass(frozen=True)
class AssetFilter:
    """Filter for listing assets of a kind."""

    name: str | None = None
    latest_only: bool = False
    tags: Mapping[str, str | None] = field(default_factory=dict)
    """A tag with the value None must exist with any value."""
    created_by: str | None = None


@dataclass(frozen=True)
class AssetChanges:
    """Changes to merge into the top level of the body and into the tags; None removes an entry."""

    body: MergePatch = field(default_factory=MergePatch)
    tags: Mapping[str, str | None] = field(default_factory=dict)


class KindRules(Protocol[D]):
    """Checks and side effects of one kind of asset. Methods raise InvalidArgument, NotFound or Conflict."""

    is_versioned: bool
    write_lock: AbstractContextManager[Any]
    """Lock held while an asset is created or deleted, so that earlier checks stay valid."""

    def needs_version(self, latest: Asset, new: D) -> bool:
        """Whether `new` differs from `latest`, so that a new version is stored."""

    def checked(self, who: Principal, workspace: str, name: str, new: D) -> D:
        """The new asset to store. References are resolved with the caller's rights."""

    def checked_change(self, who: Principal, seen: Asset, changed: D) -> D:
        """The changed asset to store. `changed` is the unchecked result of the change."""

    def stored(self, asset: Asset) -> None:
        """Called after each write."""

    def before_delete(self, asset: Asset, version: int | None) -> None:
        """Called before a version, or all versions if None, is deleted. `asset` is the latest of its name."""

    def deleted(self, asset: Asset) -> None: ...


class Assets:
    """The assets of a workspace. Kinds without versions are changed in place."""

    def __init__(
        self, assets: AssetStore, workspaces: Workspaces, access: Access, rules: Mapping[AssetKind, KindRules[Any]]
    ) -> None:
        self._assets, self._workspaces, self._access, self._rules = assets, workspaces, access, rules
        # Only one service writes to a database, so this lock keeps unversioned names unique.
        self._writing = threading.Lock()

    def list(self, who: Principal, workspace: str, kind: str, wanted: AssetFilter) -> Sequence[Asset]:
        """Sorted by name, newest version first."""
        self._workspaces.enter(who, Action.READ_ASSET, workspace)
        found = self._assets.list(workspace, asset_kind(kind), wanted.name, latest_only=wanted.latest_only)
        return [asset for asset in found if asset.name and _is_wanted(asset, wanted)]

    def get(self, who: Principal, workspace: str, kind: str, name: str, version: int | None = None) -> Asset:
        self._workspaces.enter(who, Action.READ_ASSET, workspace)
        try:
            return self._assets.get(workspace, asset_kind(kind), name, version)
        except NotFound:
            raise self._not_found(workspace, asset_kind(kind), name, version) from None

    def get_by_id(self, who: Principal, workspace: str, kind: str, asset_id: str) -> Asset:
        self._access.workspace(who, Action.READ_ASSET, workspace)
        return self._assets.get_by_id(workspace, asset_kind(kind), asset_id)

    def create(self, who: Principal, workspace: str, name: str, new: NewAsset, tags: Tags) -> Asset:
        """Store the next version of the name, or replace the only one of an unversioned kind."""
        self._workspaces.enter(who, Action.CREATE_ASSET, workspace)
        rules = self._rules[new.kind]
        check_asset_name(new.kind, name)
        _check_tags(new.kind, tags)
        with rules.write_lock:
            checked = rules.checked(who, workspace, name, new)
            with self._writing:
                made = self._stored(who, workspace, name, checked, tags)
        rules.stored(made)
        return made

    def change(
        self, who: Principal, workspace: str, kind: str, name: str, version: int | None, changes: AssetChanges
    ) -> Asset:
        self._access.right(who, Action.CHANGE_ASSET)
        rules = self._rules[asset_kind(kind)]
        _check_tags(asset_kind(kind), changes.tags)
        for _ in range(TRIES_AGAINST_OTHER_WRITERS):
            seen = self._access.asset(who, Action.CHANGE_ASSET, self.get(who, workspace, kind, name, version))
            wanted = rules.checked_change(who, seen, stored_asset(seen.kind, changes.body.over(seen.body)))
            tags = {name: value for name, value in {**seen.tags, **changes.tags}.items() if value is not None}
            try:
                changed = self._assets.replace(seen, wanted.raw, tags)
            except Conflict:
                continue
            rules.stored(changed)
            return changed
        raise Conflict(f"{name!r} is being changed by others all the time.", hint="Try again.")

    def delete(self, who: Principal, workspace: str, kind: str, name: str, version: int | None = None) -> None:
        """Delete one version or all; does nothing if it is gone."""
        self._access.right(who, Action.CHANGE_ASSET)
        self._access.workspace(who, Action.READ_ASSET, workspace)
        found = asset_kind(kind)
        rules = self._rules[found]
        there = find_asset(self._assets, workspace, found, name)
        if there is None:
            return
        with rules.write_lock:
            for one in self._assets.list(workspace, found, name):
                if version in (None, one.version):
                    self._access.asset(who, Action.CHANGE_ASSET, one)
            rules.before_delete(there, version)
            self._assets.delete(workspace, found, name, version)
        rules.deleted(there)

    def _stored(self, who: Principal, workspace: str, name: str, new: AnyAsset, tags: Tags) -> Asset:
        there, rules = find_asset(self._assets, workspace, new.kind, name), self._rules[new.kind]
        if there is None or (rules.is_versioned and rules.needs_version(there, new)):
            return self._assets.add(workspace, new.kind, name, new.raw, tags, who.name)
        if rules.is_versioned:
            return there
        return self._assets.replace(self._access.asset(who, Action.CHANGE_ASSET, there), new.raw, tags)

    def _not_found(self, workspace: str, kind: AssetKind, name: str, version: int | None) -> NotFound:
        noun = kind.value[:-1]
        known = list(
            dict.fromkeys(asset.name for asset in self._assets.list(workspace, kind, latest_only=True) if asset.name)
        )
        if version is not None and name in known:
            newest = self._assets.get(workspace, kind, name).version
            return NotFound(
                f"The {noun} {name!r} in workspace {workspace!r} has no version {version}.",
                hint=f"The newest version is {newest}.",
            )
        listed = ", ".join(f"'{one}'" for one in known[:20]) or "none"
        return NotFound(f"There is no {noun} {name!r} in workspace {workspace!r}. Known: {listed}.")


def _check_tags(kind: AssetKind, tags: Mapping[str, str | None]) -> None:
    """Refuse tags of environments that Runyard sets itself: labels and build keys."""
    own = [name for name in tags if kind is AssetKind.ENVIRONMENT and (name == KEY_TAG or name.startswith(LABEL_TAG))]
    if own:
        raise InvalidArgument(f"The tag {ascii(own[0])[:80]} is set by Runyard.", hint="Give labels as labels.")


def _is_wanted(asset: Asset, wanted: AssetFilter) -> bool:
    if wanted.created_by is not None and asset.created_by != wanted.created_by:
        return False
    tags = asset.tags
    return all(key in tags and (value is None or tags[key] == value) for key, value in wanted.tags.items())
