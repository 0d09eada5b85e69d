"""How files of a tabular dataset are read: the `format` of its stored definition."""

from azureml.data.dataset_type_definitions import FileEncoding, PromoteHeadersBehavior
from azureml.exceptions import UserErrorException

ENCODINGS = {"utf8": "utf-8-sig", "utf8bom": "utf-8-sig", "iso88591": "iso-8859-1", "latin1": "iso-8859-1",
             "ascii": "ascii", "utf16": "utf-16", "utf32": "utf-32", "windows1252": "cp1252"}
INVALID_LINES = ("error", "drop")
LINES = "\n"
"""Separator of files with one value per line."""
_QUOTES_AS_NEEDED, _QUOTES_ARE_TEXT = 0, 3  # csv.QUOTE_MINIMAL, csv.QUOTE_NONE


def delimited_format(separator=",", header=True, encoding="utf8", infer_column_types=True, set_column_types=None,
                     include_path=False, partition_format=None, support_multi_line=False, empty_as_string=False,
                     path_glob=None):
    """Stored format of delimited files. Raises UserErrorException for an invalid value."""
    if separator != LINES and (not isinstance(separator, str) or len(separator) != 1 or separator in "\r\"\x00"):
        raise UserErrorException("separator must be one character such as ',' or '\\t', or '\\n' where a line is one "
                                 "value, got %r." % (separator,))
    return dict(_any_format("delimited", set_column_types, include_path, partition_format, path_glob),
                separator=separator, header=_header(header), encoding=_encoding(encoding),
                infer_column_types=bool(infer_column_types), support_multi_line=bool(support_multi_line),
                empty_as_string=bool(empty_as_string))


def delimiter_and_quoting(form):
    """Separator and quoting arguments of csv and pandas: with one value per line, quotes are part of the value."""
    return ("\x01", _QUOTES_ARE_TEXT) if form["separator"] == LINES else (form["separator"], _QUOTES_AS_NEEDED)


def parquet_format(set_column_types=None, include_path=False, partition_format=None, path_glob=None):
    return _any_format("parquet", set_column_types, include_path, partition_format, path_glob)


def json_lines_format(invalid_lines="error", encoding="utf8", set_column_types=None, include_path=False,
                      partition_format=None, path_glob=None):
    if invalid_lines not in INVALID_LINES:
        raise UserErrorException("invalid_lines must be 'error' or 'drop', got %r." % (invalid_lines,))
    return dict(_any_format("json_lines", set_column_types, include_path, partition_format, path_glob),
                invalid_lines=invalid_lines, encoding=_encoding(encoding))


def _any_format(kind, set_column_types, include_path, partition_format, path_glob):
    from azureml.data._partitions import PartitionFormat
    PartitionFormat(partition_format)
    if path_glob is not None and not isinstance(path_glob, str):
        raise UserErrorException("path_glob must be a text such as '*.csv', got %r." % (path_glob,))
    return {"kind": kind, "column_types": column_types_json(set_column_types), "include_path": bool(include_path),
            "partition_format": partition_format, "path_glob": path_glob}


def _header(header):
    if isinstance(header, bool):
        header = (PromoteHeadersBehavior.ALL_FILES_HAVE_SAME_HEADERS if header else PromoteHeadersBehavior.NO_HEADERS)
    if not isinstance(header, PromoteHeadersBehavior):
        raise UserErrorException("header must be True, False or a PromoteHeadersBehavior (%s), got %r." % (
            ", ".join(one.name for one in PromoteHeadersBehavior), header))
    return header.name


def _encoding(encoding):
    name = encoding.name.lower() if isinstance(encoding, FileEncoding) else encoding
    if not isinstance(name, str) or name not in ENCODINGS:
        raise UserErrorException("encoding must be one of %s, got %r." % (
            ", ".join(map(repr, sorted(ENCODINGS))), encoding))
    return name


class ColumnType(object):
    """Target type of a column; made by DataType."""

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
        """true, yes, 1, y, t and their opposites, case-insensitive."""
        return ColumnType("bool")

    @staticmethod
    def to_datetime(formats=None):
        """Times in the given strftime formats (the first that fits a value counts) or in any common one."""
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
        """URLs, or `datastore/path` texts, that TabularDataset.download downloads."""
        return ColumnType("stream", escaped=bool(escaped))

    @staticmethod
    def to_string():
        return ColumnType("string")


def column_types_json(set_column_types):
    """Stored form of `set_column_types`: {column: type}; a tuple of columns stands for each of them."""
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
