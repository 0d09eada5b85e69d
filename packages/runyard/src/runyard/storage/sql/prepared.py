import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Delete, Dialect, Insert, Select, Update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import TypeEngine

_Convert = Callable[[Any], Any]
Values = Mapping[str, Any]
AnyStatement = Select[*tuple[Any, ...]] | Insert | Update | Delete


@dataclass(frozen=True)
class _Parameter:
    """A parameter of the SQL text: a value of the caller, or a constant of the statement."""

    name: str
    convert: _Convert | None
    constant: Any
    is_given: bool

    def value(self, given: Values) -> Any:
        value = given[self.name] if self.is_given else self.constant
        return value if self.convert is None else self.convert(value)


@dataclass(frozen=True)
class _Compiled:
    sql: str
    parameters: tuple[_Parameter, ...]
    converted: tuple[tuple[int, _Convert], ...]
    """Positions of the result's columns that need a conversion."""

    def read(self, row: Sequence[Any]) -> Sequence[Any]:
        values = list(row)
        for position, convert in self.converted:
            values[position] = convert(values[position])
        return values


class PreparedStatement:
    """A statement of the hot path. On SQLite it is compiled once and run by the driver: SQLAlchemy takes ten times as
    long as the driver to run such a statement. On other databases SQLAlchemy runs it.

    The values of an insert or update name the columns to set. Lists for IN cannot be given. A read begins no
    transaction on SQLite, so each statement of one `Database.read` sees the newest rows.
    """

    def __init__(self, statement: AnyStatement) -> None:
        self._statement = statement
        self._compiled: dict[tuple[str, ...], _Compiled] = {}

    def rows(self, connection: Connection, given: Values) -> Sequence[Sequence[Any]]:
        if connection.dialect.name != "sqlite":
            return connection.execute(self._statement, given).all()
        compiled = self._for(connection.dialect, given)
        return [compiled.read(row) for row in self.driver_rows(connection, given)]

    def driver_rows(self, connection: Connection, given: Values) -> Sequence[Sequence[Any]]:
        """The rows as the driver returns them: JSON and times are not converted."""
        if connection.dialect.name != "sqlite":
            return driver_rows(connection, self._statement, given)
        compiled, values = self._bound(connection.dialect, given)
        found: list[tuple[Any, ...]] = _executed(connection, compiled.sql, values, lambda cursor: cursor.fetchall())
        return found

    def first(self, connection: Connection, given: Values) -> Sequence[Any] | None:
        """The first row of a statement that finds few; None if it finds none."""
        return next(iter(self.rows(connection, given)), None)

    def change(self, connection: Connection, given: Values) -> int:
        """Run an update, delete or insert; returns the number of rows."""
        if connection.dialect.name != "sqlite":
            return connection.execute(self._statement, given).rowcount
        return int(self._changed(connection, given).rowcount)

    def insert(self, connection: Connection, given: Values) -> int:
        """Insert a row into a table whose primary key is an integer; returns the key."""
        if connection.dialect.name != "sqlite":
            added = connection.execute(self._statement, given)
            assert added.inserted_primary_key is not None
            return int(added.inserted_primary_key[0])
        return int(self._changed(connection, given).lastrowid)

    def insert_all(self, connection: Connection, rows: Sequence[Values]) -> None:
        """Insert rows that have the same columns."""
        if connection.dialect.name != "sqlite":
            connection.execute(self._statement, rows)
            return
        for row in rows:
            self._changed(connection, row)

    def _changed(self, connection: Connection, given: Values) -> Any:
        """The driver's cursor after a change."""
        compiled, values = self._bound(connection.dialect, given)
        return _executed(connection, compiled.sql, values, lambda cursor: cursor)

    def _bound(self, dialect: Dialect, given: Values) -> tuple[_Compiled, tuple[Any, ...]]:
        compiled = self._for(dialect, given)
        return compiled, tuple([parameter.value(given) for parameter in compiled.parameters])

    def _for(self, dialect: Dialect, given: Values) -> _Compiled:
        names = tuple(given)
        found = self._compiled.get(names)
        if found is None:
            found = self._compiled[names] = _compile(self._statement, dialect, names)
        return found


def _executed(connection: Connection, sql: str, values: tuple[Any, ...], read: Callable[[Any], Any]) -> Any:
    """Run a statement by the driver and return what `read` makes of its cursor. Raises the exceptions of SQLAlchemy.

    A failed statement is not tried again: a full disk may have rolled back the transaction, and outside of one the
    statement would be committed alone.
    """
    driver: Any = connection.connection.driver_connection
    try:
        return read(driver.execute(sql, values))
    except sqlite3.Error as error:
        raise DBAPIError.instance(sql, values, error, sqlite3.Error, dialect=connection.dialect) from error


def driver_rows(
    connection: Connection, statement: AnyStatement, given: Values | None = None
) -> Sequence[Sequence[Any]]:
    """Rows of a statement that is built for one query, as the driver returns them: SQLAlchemy takes as long to make
    its rows as the database to find them. For tables with columns of text and numbers."""
    with connection.execute(statement, given or {}) as result:
        assert result.cursor is not None
        try:
            return result.cursor.fetchall()
        except sqlite3.Error:
            return connection.execute(statement, given or {}).all()  # raises the exception that callers expect


def _compile(statement: AnyStatement, dialect: Dialect, names: tuple[str, ...]) -> _Compiled:
    compiled: Any = statement.compile(dialect=dialect, column_keys=list(names))
    constants = compiled.params
    parameters = tuple(
        _Parameter(name, _writer(compiled.binds[name].type, dialect), constants[name], name in names)
        for name in compiled.positiontup
    )
    columns = statement.selected_columns if isinstance(statement, Select) else ()
    readers = ((position, _reader(column.type, dialect)) for position, column in enumerate(columns))
    return _Compiled(str(compiled), parameters, tuple((position, read) for position, read in readers if read))


def _writer(type_: TypeEngine[Any], dialect: Dialect) -> _Convert | None:
    return type_.dialect_impl(dialect).bind_processor(dialect)


def _reader(type_: TypeEngine[Any], dialect: Dialect) -> _Convert | None:
    return type_.dialect_impl(dialect).result_processor(dialect, None)
