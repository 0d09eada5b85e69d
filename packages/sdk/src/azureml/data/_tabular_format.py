"""How the files of a tabular dataset are read: the `format` of its stored definition."""
from azureml.data._data_type import column_types_json
from azureml.data.dataset_type_definitions import FileEncoding, PromoteHeadersBehavior
from azureml.exceptions import UserErrorException

ENCODINGS = {"utf8": "utf-8-sig", "utf8bom": "utf-8-sig", "iso88591": "iso-8859-1", "latin1": "iso-8859-1",
             "ascii": "ascii", "utf16": "utf-16", "utf32": "utf-32", "windows1252": "cp1252"}
INVALID_LINES = ("error", "drop")
LINES = "\n"
"""The separator of files whose every line is one value."""
_QUOTES_AS_NEEDED, _QUOTES_ARE_TEXT = 0, 3  # csv.QUOTE_MINIMAL, csv.QUOTE_NONE


def delimited_format(separator=",", header=True, encoding="utf8", infer_column_types=True, set_column_types=None,
                     include_path=False, partition_format=None, support_multi_line=False, empty_as_string=False,
                     path_glob=None):
    """UserErrorException for a value that no file can be read with."""
    if separator != LINES and (not isinstance(separator, str) or len(separator) != 1 or separator in "\r\"\x00"):
        raise UserErrorException("separator must be one character such as ',' or '\\t', or '\\n' where a line is one "
                                 "value, got %r." % (separator,))
    return dict(_any_format("delimited", set_column_types, include_path, partition_format, path_glob),
                separator=separator, header=_header(header), encoding=_encoding(encoding),
                infer_column_types=bool(infer_column_types), support_multi_line=bool(support_multi_line),
                empty_as_string=bool(empty_as_string))


def delimiter_and_quoting(form):
    """How csv and pandas are told of the separator: of a line that is one value, quotes are part of that."""
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
