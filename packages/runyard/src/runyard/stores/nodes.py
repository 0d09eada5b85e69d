from collections.abc import Sequence
from dataclasses import asdict, fields, replace

from sqlalchemy import delete, select, update

from runyard.model.nodes import Node, NodeState
from runyard.model.runs import RunId
from runyard.stores.column_types import AnyRow
from runyard.stores.database import Database
from runyard.stores.schema import nodes
from runyard.stores.upserts import upsert

_IDENTITY = ("workspace", "cluster", "name")
_REPLACED = tuple(column.name for column in nodes.c if column.name not in _IDENTITY)
_COLUMNS = tuple(nodes.c[field.name] for field in fields(Node))


class SqlNodeStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def list(self, workspace: str, cluster: str | None = None) -> Sequence[Node]:
        query = select(*_COLUMNS).where(nodes.c.workspace == workspace)
        if cluster is not None:
            query = query.where(nodes.c.cluster == cluster)
        with self._database.read() as connection:
            found = [_to_node(row) for row in connection.execute(query)]
        return sorted(found, key=lambda node: (node.cluster, node.name))

    def put(self, added: Sequence[Node]) -> None:
        if not added:
            return
        with self._database.write() as connection:
            rows = [asdict(node) | {"state": node.state.value} for node in added]
            connection.execute(upsert(self._database.insert, nodes, _IDENTITY, _REPLACED), rows)

    def remove(self, workspace: str, cluster: str, names: Sequence[str]) -> None:
        of_cluster = (nodes.c.workspace == workspace, nodes.c.cluster == cluster)
        with self._database.write() as connection:
            connection.execute(delete(nodes).where(*of_cluster, nodes.c.name.in_(names)))

    def release(self, run_id: RunId) -> Sequence[Node]:
        held = nodes.c.run_id == run_id
        now = self._database.now()
        with self._database.write() as connection:
            found = [_to_node(row) for row in connection.execute(select(*_COLUMNS).where(held).with_for_update())]
            if found:
                idle = {"state": NodeState.IDLE.value, "since": now, "run_id": None, "gpus": None}
                connection.execute(update(nodes).where(held).values(idle))
        return [replace(node, state=NodeState.IDLE, since=now, run_id=None, gpus=None) for node in found]


def _to_node(row: AnyRow) -> Node:
    gpus = None if row.gpus is None else tuple(row.gpus)
    return replace(Node(*row), state=NodeState(row.state), gpus=gpus)
