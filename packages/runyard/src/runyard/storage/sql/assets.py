from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any
from uuid import uuid4

from sqlalchemy import bindparam, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from runyard.core.errors import AlreadyExists, Conflict, NotFound
from runyard.core.records.assets import Asset, AssetKind, Experiment, Workspace
from runyard.storage.sql.columns import AnySelect
from runyard.storage.sql.database import Database
from runyard.storage.sql.prepared import PreparedStatement
from runyard.storage.sql.run_rows import ensure_experiment
from runyard.storage.sql.schema import asset_names, assets, experiments, nodes, runs, workspaces

_COLUMNS = tuple(assets.c[field.name] for field in fields(Asset))
_KIND = [column.name for column in _COLUMNS].index("kind")
# Built once: an alias copies the whole table into objects that only the garbage collector frees.
_NEWER = assets.alias("newer")
_OF_SAME_NAME = [_NEWER.c[column] == assets.c[column] for column in ("workspace", "kind", "name")]
_IS_LATEST = assets.c.version == select(func.max(_NEWER.c.version)).where(*_OF_SAME_NAME).scalar_subquery()


class SqlWorkspaces:
    """The methods of the AssetStore for workspaces and experiments."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create_workspace(self, workspace: Workspace) -> Workspace:
        try:
            with self._database.write() as connection:
                connection.execute(insert(workspaces).values(asdict(workspace)))
        except IntegrityError as error:
            raise AlreadyExists(
                f"There is already a workspace {workspace.name!r}.", hint="Give exist_ok=True to use it."
            ) from error
        return workspace

    def get_workspace(self, name: str) -> Workspace:
        with self._database.read() as connection:
            row = _ONE_WORKSPACE.first(connection, {"named": name})
        if row is None:
            known = ", ".join(repr(workspace.name) for workspace in self.list_workspaces()) or "none"
            raise NotFound(f"There is no workspace {name!r}. Known: {known}.")
        return Workspace(*row)

    def list_workspaces(self) -> Sequence[Workspace]:
        with self._database.read() as connection:
            found = [Workspace(*row) for row in connection.execute(select(*_WORKSPACE))]
        return sorted(found, key=lambda workspace: workspace.name)

    def delete_workspace(self, name: str) -> None:
        try:
            with self._database.write() as connection:
                for table in _OF_WORKSPACE:
                    connection.execute(delete(table).where(table.c.workspace == name))
                connection.execute(delete(workspaces).where(workspaces.c.name == name))
        finally:
            self._database.recent_runs.forget_all()

    def ensure_experiment(self, workspace: str, name: str) -> Experiment:
        named = {"of_workspace": workspace, "named": name}
        with self._database.read() as connection:
            row = _ONE_EXPERIMENT.first(connection, named)
        if row is None:
            with self._database.write() as connection:
                ensure_experiment(self._database, connection, workspace, name)
                row = _ONE_EXPERIMENT.first(connection, named)
            assert row is not None
        return Experiment(*row)

    def list_experiments(self, workspace: str) -> Sequence[Experiment]:
        with self._database.read() as connection:
            rows = connection.execute(select(*_EXPERIMENT).where(experiments.c.workspace == workspace))
            return sorted((Experiment(*row) for row in rows), key=lambda experiment: experiment.name)

    def update_experiment(self, experiment: Experiment) -> None:
        named = (experiments.c.workspace == experiment.workspace, experiments.c.name == experiment.name)
        changed = {
            "description": experiment.description,
            "tags": dict(experiment.tags),
            "archived_at": experiment.archived_at,
        }
        with self._database.write() as connection:
            if connection.execute(update(experiments).where(*named).values(changed)).rowcount == 0:
                raise NotFound(f"There is no experiment {experiment.name!r} in workspace {experiment.workspace!r}.")

    def delete_experiment(self, workspace: str, name: str) -> None:
        named = (experiments.c.workspace == workspace, experiments.c.name == name)
        try:
            with self._database.write() as connection:
                connection.execute(delete(experiments).where(*named))
        except IntegrityError as error:
            raise Conflict(f"Experiment {name!r} has runs.", hint="Delete them first.") from error


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
        named = {"of_workspace": workspace, "of_kind": kind.value, "named": name}
        with self._database.read() as connection:
            if version is None:
                row = _NEWEST.first(connection, named)
            else:
                row = _OF_VERSION.first(connection, named | {"of_version": version})
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


def _to_asset(row: Sequence[Any]) -> Asset:
    values = list(row)
    values[_KIND] = AssetKind(values[_KIND])
    return Asset(*values)


def _not_found(workspace: str, kind: AssetKind, wanted: str) -> NotFound:
    return NotFound(f"There is no {wanted!r} among the {kind} of workspace {workspace!r}.")


# Built once: building a statement takes longer than running it.
_OF_NAME = select(*_COLUMNS).where(
    assets.c.workspace == bindparam("of_workspace"),
    assets.c.kind == bindparam("of_kind"),
    assets.c.name == bindparam("named"),
)
_NEWEST = PreparedStatement(_OF_NAME.order_by(assets.c.version.desc()).limit(1))
_OF_VERSION = PreparedStatement(_OF_NAME.where(assets.c.version == bindparam("of_version")))
_WORKSPACE = tuple(workspaces.c[field.name] for field in fields(Workspace))
_EXPERIMENT = tuple(experiments.c[field.name] for field in fields(Experiment))
_ONE_WORKSPACE = PreparedStatement(select(*_WORKSPACE).where(workspaces.c.name == bindparam("named")))
_ONE_EXPERIMENT = PreparedStatement(
    select(*_EXPERIMENT).where(
        experiments.c.workspace == bindparam("of_workspace"), experiments.c.name == bindparam("named")
    )
)
_OF_WORKSPACE = (runs, experiments, assets, asset_names, nodes)  # runs before the experiments they point to
