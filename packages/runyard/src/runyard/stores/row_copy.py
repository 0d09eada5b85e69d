from sqlalchemy import BigInteger, Connection, func, insert, select, text

from runyard.stores.database import Database
from runyard.stores.schema import metadata

_ROWS_AT_ONCE = 500


def copy_rows(source: Database, target: Database) -> None:
    """Copy every row to the empty tables of another database, all or nothing. Both must have the newest schema."""
    with source.read() as old, target.write() as new:
        for table in metadata.sorted_tables:
            found = old.execution_options(yield_per=_ROWS_AT_ONCE).execute(select(table)).mappings()
            for rows in found.partitions(_ROWS_AT_ONCE):
                new.execute(insert(table), [dict(row) for row in rows])
        if not target.is_sqlite:
            _count_on(new)


def _count_on(connection: Connection) -> None:
    """Advance PostgreSQL's sequences: inserting rows with explicit keys does not."""
    for table in metadata.sorted_tables:
        column = table.autoincrement_column
        if column is not None and isinstance(column.type, BigInteger):
            last = connection.execute(select(func.max(column))).scalar()
            place = {"table": table.name, "column": column.name, "last": last}
            if last:
                connection.execute(text("SELECT setval(pg_get_serial_sequence(:table, :column), :last)"), place)
