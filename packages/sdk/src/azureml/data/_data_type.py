from azureml.exceptions import UserErrorException


class ColumnType(object):
    """A type that values of a column are converted to; made by DataType."""

    def __init__(self, kind, **settings):
        self._json = dict(settings, kind=kind)

    def to_json(self):
        return dict(self._json)

    def __eq__(self, other):
        return isinstance(other, ColumnType) and self._json == other._json

    def __hash__(self):
        return hash(repr(sorted(self._json.items())))

    def __repr__(self):
        return "DataType.to_%s()" % self._json["kind"]


class DataType(object):
    """Types for `set_column_types`: {'age': DataType.to_long()}."""

    @staticmethod
    def to_bool():
        """true, yes, 1, y, t and their opposites, in any case."""
        return ColumnType("bool")

    @staticmethod
    def to_datetime(formats=None):
        """Times, in the strftime formats given (the first that fits a value counts) or in any common one."""
        given = [formats] if isinstance(formats, str) else formats
        if given is not None and not (isinstance(given, (list, tuple)) and given
                                      and all(isinstance(one, str) and one for one in given)):
            raise UserErrorException("formats must be a text such as '%%Y-%%m-%%d' or a list of them, got %r." % (
                formats,))
        return ColumnType("datetime", formats=list(given) if given else None)

    @staticmethod
    def to_float(decimal_mark="."):
        """Numbers whose decimal mark is '.', or ',' with '.' between thousands."""
        if decimal_mark not in (".", ","):
            raise UserErrorException("decimal_mark must be '.' or ',', got %r." % (decimal_mark,))
        return ColumnType("float", decimal_mark=decimal_mark)

    @staticmethod
    def to_long():
        return ColumnType("long")

    @staticmethod
    def to_stream(workspace, escaped=False):
        """Web addresses, or paths on datastores as `datastore/path`, that TabularDataset.download fetches."""
        return ColumnType("stream", escaped=bool(escaped))

    @staticmethod
    def to_string():
        return ColumnType("string")


def column_types_json(set_column_types):
    """The stored form of `set_column_types`: {column: type}; a tuple of columns stands for each of them."""
    if set_column_types is None:
        return {}
    if not isinstance(set_column_types, dict):
        raise UserErrorException("set_column_types must be a dict such as {'age': DataType.to_long()}, got %r." % (
            set_column_types,))
    found = {}
    for columns, kind in set_column_types.items():
        if not isinstance(kind, ColumnType):
            raise UserErrorException("set_column_types gives %r for %r; it takes DataType.to_bool(), to_datetime(), "
                                     "to_float(), to_long(), to_stream() or to_string()." % (kind, columns))
        for name in columns if isinstance(columns, tuple) else (columns,):
            if not isinstance(name, str):
                raise UserErrorException("set_column_types names columns by text, got %r." % (name,))
            found[name] = kind.to_json()
    return found
