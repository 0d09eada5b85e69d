from collections.abc import Sequence
from dataclasses import asdict, fields, replace

from sqlalchemy import Connection, bindparam, delete, select, update

from runyard.core.records.nodes import Node, NodeState, NodeTask, NodeTaskState
from runyard.core.records.runs import AttemptId, RunId, run_of
from runyard.storage.sql.columns import AnyRow
from runyard.storage.sql.database import Database, upsert
from runyard.storage.sql.run_rows import run_key
from runyard.storage.sql.schema import nodes, parts

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


_ORDER = {state: place for place, state in enumerate(NodeTaskState)}
_TASK_COLUMNS = parts.c["node", "state", "at", "facts"]
_OF_ATTEMPT = select(*_TASK_COLUMNS).where(parts.c.attempt_id == bindparam("attempt")).order_by(parts.c.node)


class SqlNodeTaskStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, part: NodeTask) -> Sequence[NodeTask]:
        with self._database.write() as connection:
            run = run_key(connection, run_of(part.attempt_id), lock=True)
            known = _parts(connection, part.attempt_id)
            before = next((one for one in known if one.node == part.node), None)
            if before is not None and _ORDER[before.state] >= _ORDER[part.state]:
                return known
            facts = {**(before.facts if before else {}), **part.facts}
            changing = {"state": part.state.value, "at": part.at, "facts": facts}
            row = {"attempt_id": part.attempt_id, "node": part.node, "run": run, **changing}
            upsert = self._database.insert(parts).values(row)
            connection.execute(upsert.on_conflict_do_update(index_elements=["attempt_id", "node"], set_=changing))
            return _parts(connection, part.attempt_id)

    def list(self, attempt_id: AttemptId) -> Sequence[NodeTask]:
        with self._database.read() as connection:
            return _parts(connection, attempt_id)


def _parts(connection: Connection, attempt_id: AttemptId) -> list[NodeTask]:
    found = connection.execute(_OF_ATTEMPT, {"attempt": attempt_id})
    return [NodeTask(attempt_id, node, NodeTaskState(state), at, facts) for node, state, at, facts in found]
