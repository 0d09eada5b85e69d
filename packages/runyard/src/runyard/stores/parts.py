from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, select

from runyard.model.parts import Part, PartState
from runyard.model.runs import AttemptId, run_of
from runyard.stores.database import Database
from runyard.stores.run_rows import run_key
from runyard.stores.schema import parts

_ORDER = {state: place for place, state in enumerate(PartState)}
_COLUMNS = parts.c["node", "state", "at", "facts"]
_OF_ATTEMPT = select(*_COLUMNS).where(parts.c.attempt_id == bindparam("attempt")).order_by(parts.c.node)


class SqlPartStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, part: Part) -> Sequence[Part]:
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

    def list(self, attempt_id: AttemptId) -> Sequence[Part]:
        with self._database.read() as connection:
            return _parts(connection, attempt_id)


def _parts(connection: Connection, attempt_id: AttemptId) -> list[Part]:
    found = connection.execute(_OF_ATTEMPT, {"attempt": attempt_id})
    return [Part(attempt_id, node, PartState(state), at, facts) for node, state, at, facts in found]
