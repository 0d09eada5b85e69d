from collections.abc import Callable
from functools import cache
from typing import Any

from sqlalchemy import Executable, Table


@cache
def upsert(insert: Callable[[Table], Any], table: Table, key: tuple[str, ...], replaced: tuple[str, ...]) -> Executable:
    """Insert rows; where one has the same `key`, replace its `replaced` columns. `insert` is that of the database.

    Made once: `excluded` copies the whole table, into objects that only the garbage collector frees.
    """
    statement = insert(table)
    new = {name: statement.excluded[name] for name in replaced}
    made: Executable = statement.on_conflict_do_update(index_elements=key, set_=new)
    return made
