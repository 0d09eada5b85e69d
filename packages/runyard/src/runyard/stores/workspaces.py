from collections.abc import Sequence
from dataclasses import asdict, fields

from sqlalchemy import bindparam, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from runyard.errors import AlreadyExists, Conflict, NotFound
from runyard.model.assets import Experiment, Workspace
from runyard.stores.database import Database
from runyard.stores.experiments import ensure_experiment
from runyard.stores.schema import asset_names, assets, experiments, nodes, runs, workspaces

_WORKSPACE = tuple(workspaces.c[field.name] for field in fields(Workspace))
_EXPERIMENT = tuple(experiments.c[field.name] for field in fields(Experiment))
_ONE_WORKSPACE = select(*_WORKSPACE).where(workspaces.c.name == bindparam("named"))
_ONE_EXPERIMENT = select(*_EXPERIMENT).where(
    experiments.c.workspace == bindparam("of_workspace"), experiments.c.name == bindparam("named")
)
_OF_WORKSPACE = (runs, experiments, assets, asset_names, nodes)  # runs before the experiments they point to


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
            row = connection.execute(_ONE_WORKSPACE, {"named": name}).first()
        if row is None:
            known = ", ".join(repr(workspace.name) for workspace in self.list_workspaces()) or "none"
            raise NotFound(f"There is no workspace {name!r}. Known: {known}.")
        return Workspace(*row)

    def list_workspaces(self) -> Sequence[Workspace]:
        with self._database.read() as connection:
            found = [Workspace(*row) for row in connection.execute(select(*_WORKSPACE))]
        return sorted(found, key=lambda workspace: workspace.name)

    def delete_workspace(self, name: str) -> None:
        with self._database.write() as connection:
            for table in _OF_WORKSPACE:
                connection.execute(delete(table).where(table.c.workspace == name))
            connection.execute(delete(workspaces).where(workspaces.c.name == name))

    def ensure_experiment(self, workspace: str, name: str) -> Experiment:
        named = {"of_workspace": workspace, "named": name}
        with self._database.read() as connection:
            row = connection.execute(_ONE_EXPERIMENT, named).first()
        if row is None:
            with self._database.write() as connection:
                ensure_experiment(self._database, connection, workspace, name)
                row = connection.execute(_ONE_EXPERIMENT, named).one()
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
