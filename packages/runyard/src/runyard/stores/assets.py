from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any
from uuid import uuid4

from sqlalchemy import delete, func, insert, select, update

from runyard.errors import Conflict, NotFound
from runyard.model.assets import Asset, AssetKind
from runyard.stores.column_types import AnyRow, AnySelect
from runyard.stores.schema import asset_names, assets
from runyard.stores.workspaces import SqlWorkspaces

_COLUMNS = tuple(assets.c[field.name] for field in fields(Asset))
# Built once: an alias copies the whole table into objects that only the garbage collector frees.
_NEWER = assets.alias("newer")
_OF_SAME_NAME = [_NEWER.c[column] == assets.c[column] for column in ("workspace", "kind", "name")]
_IS_LATEST = assets.c.version == select(func.max(_NEWER.c.version)).where(*_OF_SAME_NAME).scalar_subquery()


class SqlAssetStore(SqlWorkspaces):
    def add(
        self,
        workspace: str,
        kind: AssetKind,
        name: str,
        body: Mapping[str, Any],
        tags: Mapping[str, str],
        created_by: str = "",
    ) -> Asset:
        now = self._database.now()
        counter = {"workspace": workspace, "kind": kind.value, "name": name}
        count_up = self._database.insert(asset_names).values(counter | {"last_version": 1})
        with self._database.write() as connection:
            connection.execute(
                count_up.on_conflict_do_update(
                    index_elements=list(counter), set_={"last_version": asset_names.c.last_version + 1}
                )
            )
            of_name = [asset_names.c[column] == value for column, value in counter.items()]
            version = connection.execute(select(asset_names.c.last_version).where(*of_name)).scalar_one()
            asset = Asset(
                str(uuid4()), workspace, kind, name, version, now, now, dict(body), dict(tags), created_by=created_by
            )
            row = {field.name: getattr(asset, field.name) for field in fields(Asset)} | {"kind": kind.value}
            connection.execute(insert(assets).values(row))
        return asset

    def get(self, workspace: str, kind: AssetKind, name: str, version: int | None = None) -> Asset:
        query = _of_kind(workspace, kind).where(assets.c.name == name)
        if version is not None:
            query = query.where(assets.c.version == version)
        with self._database.read() as connection:
            row = connection.execute(query.order_by(assets.c.version.desc()).limit(1)).first()
        if row is None:
            raise _not_found(workspace, kind, name if version is None else f"{name}:{version}")
        return _to_asset(row)

    def get_by_id(self, workspace: str, kind: AssetKind, asset_id: str) -> Asset:
        with self._database.read() as connection:
            row = connection.execute(_of_kind(workspace, kind).where(assets.c.id == asset_id)).first()
        if row is None:
            raise _not_found(workspace, kind, asset_id)
        return _to_asset(row)

    def list(
        self, workspace: str, kind: AssetKind, name: str | None = None, *, latest_only: bool = False
    ) -> Sequence[Asset]:
        """Assets named "" are listed only if `name` is ""."""
        wanted = assets.c.name != "" if name is None else assets.c.name == name
        query = _of_kind(workspace, kind).where(wanted)
        if latest_only:
            query = query.where(_IS_LATEST)
        with self._database.read() as connection:
            found = [_to_asset(row) for row in connection.execute(query)]
        return sorted(found, key=lambda asset: (asset.name, -asset.version))

    def replace(self, seen: Asset, body: Mapping[str, Any], tags: Mapping[str, str]) -> Asset:
        changed: dict[str, Any] = {
            "body": dict(body),
            "tags": dict(tags),
            "modified_at": self._database.now(),
            "revision": seen.revision + 1,
        }
        unchanged_since = (assets.c.id == seen.id, assets.c.revision == seen.revision)
        with self._database.write() as connection:
            if connection.execute(update(assets).where(*unchanged_since).values(changed)).rowcount == 0:
                raise Conflict(
                    f"{seen.name}:{seen.version} of the {seen.kind} was changed or deleted by somebody else.",
                    hint="Read it again and decide anew.",
                )
        return replace(seen, **changed)

    def delete(self, workspace: str, kind: AssetKind, name: str, version: int | None = None) -> None:
        with self._database.write() as connection:
            for table in (assets, asset_names) if version is None else (assets,):
                named = (table.c.workspace == workspace, table.c.kind == kind.value, table.c.name == name)
                statement = delete(table).where(*named)
                connection.execute(statement if version is None else statement.where(assets.c.version == version))


def _of_kind(workspace: str, kind: AssetKind) -> AnySelect:
    return select(*_COLUMNS).where(assets.c.workspace == workspace, assets.c.kind == kind.value)


def _to_asset(row: AnyRow) -> Asset:
    return replace(Asset(*row), kind=AssetKind(row.kind))


def _not_found(workspace: str, kind: AssetKind, wanted: str) -> NotFound:
    return NotFound(f"There is no {wanted!r} among the {kind} of workspace {workspace!r}.")
