import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from runyard.errors import Conflict, InvalidArgument, NotFound
from runyard.model.assets import Asset, AssetKind
from runyard.model.names import check_asset_name
from runyard.ports.stores import AssetStore
from runyard.services.workspaces import Workspaces

Body = Mapping[str, Any]
TRIES_AGAINST_OTHER_WRITERS = 20


class KindRules(Protocol):
    """What one kind of asset asks for beyond being stored. Raises InvalidArgument, NotFound or Conflict."""

    is_versioned: bool
    may_be_nameless: bool
    """Such an asset is listed nowhere and found by its id alone."""
    turn: AbstractContextManager[Any]
    """Held while one is made or deleted, so that what is checked before still holds then."""

    def is_news(self, latest: Asset, body: Body) -> bool:
        """Whether the body makes a new version, rather than being the latest one said again."""

    def checked_body(self, workspace: str, name: str, body: Body) -> Body:
        """The body as it will be stored, for a new asset."""

    def checked_change(self, seen: Asset, body: Body) -> Body:
        """The body as it will be stored, for an asset that is there."""

    def stored(self, asset: Asset) -> None:
        """Called after each write."""

    def before_delete(self, asset: Asset, version: int | None) -> None:
        """`asset` is the latest of its name; that version of it is to go, or with None all."""

    def deleted(self, asset: Asset) -> None: ...


class Assets:
    """The named things of a workspace. Kinds that have no versions are changed in place."""

    def __init__(self, assets: AssetStore, workspaces: Workspaces, rules: Mapping[AssetKind, KindRules]) -> None:
        self._assets, self._workspaces, self._rules = assets, workspaces, rules
        # One service owns a home, so a lock in it is enough to keep unversioned names single.
        self._writing = threading.Lock()

    def list(
        self,
        workspace: str,
        kind: str,
        name: str | None = None,
        *,
        latest_only: bool = False,
        tags: Mapping[str, str | None],
    ) -> Sequence[Asset]:
        """By name, newest version first; a tag given None only has to be there."""
        self._workspaces.get(workspace)
        found = self._assets.list(workspace, self._open_kind(kind), name, latest_only=latest_only)
        return [asset for asset in found if asset.name and _has_tags(asset, tags)]

    def get(self, workspace: str, kind: str, name: str, version: int | None = None) -> Asset:
        self._workspaces.get(workspace)
        try:
            return self._assets.get(workspace, self._open_kind(kind), name, version)
        except NotFound:
            raise self._not_found(workspace, self._open_kind(kind), name, version) from None

    def get_by_id(self, workspace: str, kind: str, asset_id: str) -> Asset:
        return self._assets.get_by_id(workspace, self._open_kind(kind), asset_id)

    def create(self, workspace: str, kind: str, name: str, body: Body, tags: Mapping[str, str]) -> Asset:
        """The next version of the name, or the one and only of an unversioned kind."""
        asset_kind = self._open_kind(kind)
        self._workspaces.get(workspace)
        rules = self._rules[asset_kind]
        if name or not rules.may_be_nameless:
            check_asset_name(asset_kind, name)
        with rules.turn:
            checked = rules.checked_body(workspace, name, body)
            with self._writing:
                made = self._stored(workspace, asset_kind, name, checked, tags)
        rules.stored(made)
        return made

    def change(self, workspace: str, kind: str, name: str, version: int | None, changes: Mapping[str, Any]) -> Asset:
        """Merge into the body's top level and into the tags; a null removes."""
        rules = self._rules[self._open_kind(kind)]
        for _ in range(TRIES_AGAINST_OTHER_WRITERS):
            seen = self.get(workspace, kind, name, version)
            body = rules.checked_change(seen, _merged(seen.body, changes.get("body")))
            try:
                changed = self._assets.replace(seen, body, _merged(seen.tags, changes.get("tags")))
            except Conflict:
                continue
            rules.stored(changed)
            return changed
        raise Conflict(f"{name!r} is being changed by others all the time.", hint="Try again.")

    def delete(self, workspace: str, kind: str, name: str, version: int | None = None) -> None:
        """One version or all; quiet when gone."""
        asset_kind = self._open_kind(kind)
        rules = self._rules[asset_kind]
        there = self._find_latest(workspace, asset_kind, name)
        if there is None:
            return
        with rules.turn:
            rules.before_delete(there, version)
            self._assets.delete(workspace, asset_kind, name, version)
        rules.deleted(there)

    def _stored(self, workspace: str, kind: AssetKind, name: str, body: Body, tags: Mapping[str, str]) -> Asset:
        there, rules = self._find_latest(workspace, kind, name), self._rules[kind]
        if there is None or (rules.is_versioned and rules.is_news(there, body)):
            return self._assets.add(workspace, kind, name, body, tags)
        return there if rules.is_versioned else self._assets.replace(there, body, tags)

    def _open_kind(self, kind: str) -> AssetKind:
        for known in self._rules:
            if known.value == kind:
                return known
        raise NotFound(f"There is no asset kind {kind!r}. Known: {', '.join(sorted(self._rules))}.")

    def _find_latest(self, workspace: str, kind: AssetKind, name: str) -> Asset | None:
        try:
            return self._assets.get(workspace, kind, name)
        except NotFound:
            return None

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


def _merged(old: Mapping[str, Any], new: Any) -> dict[str, Any]:
    if new is not None and not isinstance(new, dict):
        raise InvalidArgument("body and tags are objects.")
    merged = {**old, **(new or {})}
    return {key: value for key, value in merged.items() if value is not None}


def _has_tags(asset: Asset, tags: Mapping[str, str | None]) -> bool:
    return all(key in asset.tags and (value is None or asset.tags[key] == value) for key, value in tags.items())
