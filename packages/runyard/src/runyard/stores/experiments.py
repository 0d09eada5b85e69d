from uuid import uuid4

from sqlalchemy import Connection, select, update

from runyard.stores.database import Database
from runyard.stores.schema import experiments


def ensure_experiment(database: Database, connection: Connection, workspace: str, name: str) -> None:
    row = {
        "workspace": workspace,
        "name": name,
        "id": str(uuid4()),
        "created_at": database.now(),
        "description": "",
        "tags": {},
        "last_number": 0,
    }
    connection.execute(database.insert(experiments).values(row).on_conflict_do_nothing())


def next_number(database: Database, connection: Connection, workspace: str, name: str) -> tuple[int, int]:
    """Key of the experiment and number of its next run. The row stays locked until the transaction ends."""
    named = (experiments.c.workspace == workspace, experiments.c.name == name)
    count_up = update(experiments).where(*named).values(last_number=experiments.c.last_number + 1)
    if connection.execute(count_up).rowcount == 0:
        ensure_experiment(database, connection, workspace, name)
        connection.execute(count_up)
    key, number = connection.execute(select(experiments.c.key, experiments.c.last_number).where(*named)).one()
    return key, number
