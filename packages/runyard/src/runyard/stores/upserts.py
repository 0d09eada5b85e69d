from collections.abc import Callable
from functools import cache
from typing import Any

from sqlalchemy import Executable, Table


@cache
def upsert(insert: Callable[[Table], Any], table: Table, key: tuple[str, ...], replaced: tuple[str, ...]) -> Executable:
    """Statement that inserts rows, or replaces the `replaced` columns of a row with the same `key`.

    `insert` is `Database.insert`. Cached: `excluded` copies the whole table into objects that only the garbage
    collector frees.
    """
    statement = insert(table)
    new = {name: statement.excluded[name] for name in replaced}
    made: Executable = statement.on_conflict_do_update(index_elements=key, set_=new)
    return made
