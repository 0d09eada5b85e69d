"""Many runs in a database in seconds: copies of the rows of one that the store itself has written."""

import sqlite3
from collections.abc import Collection

_RANDOM_VALUE = "abs(random() % 1000000) / 1e6"


def copy_run(
    connection: sqlite3.Connection, template: str, copies: int, *, prefix: str, drawn: Collection[str]
) -> None:
    """Copies of the run `template`, which is the newest: `<prefix>1` and so on. The columns `drawn` of their metrics
    hold random numbers below 1."""
    (first,) = connection.execute("select sequence from runs where id = ?", [template]).fetchone()
    connection.execute(
        "create temp table copies as with recursive n(i) as (select 1 union all select i + 1 from n where i < ?) "
        "select i from n",
        [copies],
    )
    replaced = {"runs": {"sequence": f"{first} + i", "id": f"'{prefix}' || i", "number": "number + i"}}
    for table in ("run_details", "run_labels", "run_events", "journals"):
        replaced[table] = {"run": f"{first} + i", "key": "null"}
    (highest,) = connection.execute("select max(key) from metrics").fetchone()
    replaced["metrics"] = {"run": f"{first} + i", "key": f"key + i * {highest}", **dict.fromkeys(drawn, _RANDOM_VALUE)}
    replaced["metric_chunks"] = {"metric": f"metric + i * {highest}"}
    owners = {"metric_chunks": f"metric in (select key from metrics where run = {first})"}
    for table, changes in replaced.items():
        columns = [row[1] for row in connection.execute(f"pragma table_info({table})")]
        chosen = ", ".join(changes.get(column, f'"{column}"') for column in columns)
        quoted = ", ".join(f'"{column}"' for column in columns)
        of_template = owners.get(table, f"{'sequence' if table == 'runs' else 'run'} = {first}")
        connection.execute(f"insert into {table} ({quoted}) select {chosen} from {table}, copies where {of_template}")
