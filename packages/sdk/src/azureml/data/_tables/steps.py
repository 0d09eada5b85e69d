"""Steps and filter conditions of a tabular dataset, applied to a DataFrame."""

from azureml.data._tables.libraries import pandas_for
from azureml.data.dataset_error_handling import DatasetValidationError
from azureml.exceptions import UserErrorException

_COMPARISONS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


def applied(frame, steps):
    """DataFrame after all steps."""
    for step in steps:
        frame = _STEPS[step[0]](frame, *step[1:])
    return frame


def rows_needed(steps):
    """Number of rows of the files that the steps need; None for all."""
    skipped = 0
    for step in steps:
        if step[0] == "skip":
            skipped += step[1]
        elif step[0] == "take":
            return skipped + step[1]
        elif step[0] not in ("keep_columns", "drop_columns", "timestamps"):
            return None
    return None


def columns_needed(steps):
    """Columns of the files that the steps need; None for all."""
    seen = set()
    for step in steps:
        if step[0] == "keep_columns":
            return seen | set(step[1])
        if step[0] == "drop_columns":
            return None
        seen |= columns_of(step)
    return None


def columns_of(step):
    """Columns that decide which rows a step keeps."""
    if step[0] == "filter":
        return columns_in(step[1])
    return {step[1]} if step[0] == "time" else set()


def _keep_columns(frame, columns):
    kept = [name for name in frame.columns if name in set(columns)]
    if not kept:
        raise UserErrorException("keep_columns names %s, of which the table has none. Its columns are %s." % (
            ", ".join(map(repr, columns)), ", ".join(map(repr, frame.columns))))
    return frame[kept]


def _drop_columns(frame, columns):
    return frame[[name for name in frame.columns if name not in set(columns)]]


def _sample(frame, probability, seed, keep):
    return frame[(_random_numbers(seed, len(frame)) < probability) == keep]


def _random_numbers(seed, count):
    """First numbers of `random.Random(seed).random()`, as an array and without a loop."""
    from numpy.random import RandomState
    words, rest = [], abs(seed)
    while rest or not words:
        words.append(rest & 0xffffffff)
        rest >>= 32
    return RandomState(words).random_sample(count)


def _between_times(frame, name, start, end, include_boundary):
    pandas = pandas_for("Filtering by time")
    times = column_of(frame, name)
    if times.dtype.kind != "M":
        raise DatasetValidationError(
            "The timestamp column %r holds no times but %s values. Read it as times: "
            "set_column_types={%r: DataType.to_datetime()}." % (name, times.dtype, name))
    kept = times.notna()
    if start is not None:
        kept &= times >= pandas.Timestamp(start) if include_boundary else times > pandas.Timestamp(start)
    if end is not None:
        kept &= times <= pandas.Timestamp(end) if include_boundary else times < pandas.Timestamp(end)
    return frame[kept]


_STEPS = {
    "drop_columns": _drop_columns, "keep_columns": _keep_columns, "sample": _sample, "time": _between_times,
    "filter": lambda frame, condition: frame[holds(condition, frame)],
    "skip": lambda frame, count: frame.iloc[count:],
    "take": lambda frame, count: frame.iloc[:count],
    "timestamps": lambda frame, fine, coarse: frame,
}


def holds(condition, frame):
    """Boolean column of the rows that match the condition; a null matches nothing."""
    sign = condition[0]
    if sign == "and":
        return holds(condition[1], frame) & holds(condition[2], frame)
    if sign == "or":
        return holds(condition[1], frame) | holds(condition[2], frame)
    if sign == "not":
        return ~holds(condition[1], frame)
    left = column_of(frame, condition[1][1])
    right = condition[2]
    if right is None:
        return left.isna() if sign == "==" else left.notna()
    if sign in _COMPARISONS:
        return _compared(left, sign, column_of(frame, right[1]) if isinstance(right, list) else right)
    texts = left.map(lambda value: isinstance(value, str) and _TEXT_TESTS[sign](value, right), na_action="ignore")
    return texts.eq(True)


def columns_in(condition):
    """Names of all columns in a condition."""
    if not isinstance(condition, list):
        return set()
    if condition[0] == "column":
        return {condition[1]}
    return set().union(*[columns_in(part) for part in condition[1:]])


def column_of(frame, name):
    if name not in frame.columns:
        raise UserErrorException("There is no column %r. The columns are %s." % (
            name, ", ".join(map(repr, frame.columns)) or "none"))
    return frame[name]


def _compared(left, sign, right):
    if left.dtype.kind == "M" and isinstance(right, str):
        right = _time_value(left.name, right)
    try:
        found = getattr(left, _COMPARISONS[sign])(right)
    except TypeError:
        raise UserErrorException("Column %r holds %s values, which cannot be compared with %r by %s. Give it another "
                                 "type with set_column_types." % (left.name, left.dtype, right, sign))
    return found & left.notna() if sign == "!=" else found


def _time_value(column, text):
    pandas = pandas_for("Comparing times")
    try:
        time = pandas.Timestamp(text)
    except ValueError:
        raise UserErrorException("Column %r holds times and cannot be compared with %r." % (column, text))
    return time.tz_convert("UTC").tz_localize(None) if time.tzinfo is not None else time


_TEXT_TESTS = {"startswith": str.startswith, "endswith": str.endswith, "contains": str.__contains__}
