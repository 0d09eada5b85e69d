"""What SDK v1 makes of the values that are logged. Pure functions; numpy is recognised and never imported."""

from azureml.exceptions import AzureMLException, UserErrorException

_NUMPY_FLOATS = frozenset(["float16", "float32", "float64"])
_NUMPY_INTEGERS = frozenset(["int8", "int16", "int32", "uint8", "uint16", "uint32"])
_NUMPY_TRUTHS = frozenset(["bool", "bool_"])
_NUMPY_TEXTS = frozenset(["str_"])
_PLAIN = (float, int, str, bool, type(None))
_SERIES = (list, tuple, set, frozenset, range)


def scalar(value, argument="value"):
    """The stored form of one value: numbers, text, truth values and None as they are, anything else its text.

    numpy.int64 is not converted, as in v1: it becomes text. Raises UserErrorException for a series of values.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind.__module__ == "numpy":
        return _numpy(value, kind.__name__)
    if isinstance(value, _SERIES) or hasattr(value, "__next__"):
        raise UserErrorException("{} must be one value, got {}. Use log_list for several values.".format(
            argument, kind.__name__))
    for plain in (bool, int, float, str):
        if isinstance(value, plain):
            return plain(value)
    return repr(value)


def values(series, argument="value"):
    """A list of stored values. Raises UserErrorException for a list inside the list."""
    if isinstance(series, (str, bytes)) or not hasattr(series, "__iter__"):
        raise UserErrorException("{} must be a list, got {}.".format(argument, type(series).__name__))
    return [scalar(value, "Each item of " + argument) for value in series]


def row(columns):
    """One row `{column: value}`. Raises AzureMLException for a list inside it."""
    for name, value in columns.items():
        if isinstance(value, _SERIES):
            raise AzureMLException("Column {!r} of the row holds a {}; a row has one value per column. "
                                   "Use log_table for several rows.".format(name, type(value).__name__))
    return {str(name): scalar(value, "Column {!r}".format(name)) for name, value in columns.items()}


def table(columns):
    """A table `{column: [values]}`. Raises AzureMLException where the columns differ in length."""
    if not isinstance(columns, dict):
        raise UserErrorException("value must be a dict of columns, got {}.".format(type(columns).__name__))
    stored = {}
    for name, column in columns.items():
        is_series = hasattr(column, "__iter__") and not isinstance(column, (str, bytes, dict))
        stored[str(name)] = values(column if is_series else [column], "Column {!r}".format(name))
    lengths = {name: len(column) for name, column in stored.items()}
    if len(set(lengths.values())) > 1:
        raise AzureMLException("All columns of a table must have the same length, got {}.".format(
            ", ".join("{}: {}".format(name, length) for name, length in sorted(lengths.items()))))
    return stored


def _numpy(value, name):
    if name in _NUMPY_FLOATS:
        return float(value)
    if name in _NUMPY_INTEGERS:
        return int(value)
    if name in _NUMPY_TRUTHS:
        return bool(value)
    if name in _NUMPY_TEXTS:
        return str(value)
    return str(value) if not getattr(value, "shape", ()) else repr(value)
