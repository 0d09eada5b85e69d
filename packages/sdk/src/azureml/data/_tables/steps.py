"""The steps of a tabular dataset, applied to the rows of a frame."""
from azureml.data._tables.conditions import column_of, columns_in, holds
from azureml.data._tables.libraries import pandas_for
from azureml.data.dataset_error_handling import DatasetValidationError
from azureml.exceptions import UserErrorException


def applied(frame, steps):
    """The frame after all steps."""
    for step in steps:
        frame = _STEPS[step[0]](frame, *step[1:])
    return frame


def rows_needed(steps):
    """How many rows of the files the steps look at; None for all of them."""
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
    """The columns of the files that the steps look at; None for all of them."""
    seen = set()
    for step in steps:
        if step[0] == "keep_columns":
            return seen | set(step[1])
        if step[0] == "drop_columns":
            return None
        seen |= columns_of(step)
    return None


def columns_of(step):
    """The columns that the rows which a step keeps depend on."""
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
    """The first numbers of `random.Random(seed).random()`, as an array and without a loop."""
    from numpy.random import RandomState
    words, rest = [], abs(seed)
    while rest or not words:
        words.append(rest & 0xffffffff)
        rest >>= 32
    return RandomState(words).random_sample(count)


def _time(frame, name, start, end, include_boundary):
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
    "drop_columns": _drop_columns, "keep_columns": _keep_columns, "sample": _sample, "time": _time,
    "filter": lambda frame, condition: frame[holds(condition, frame)],
    "skip": lambda frame, count: frame.iloc[count:],
    "take": lambda frame, count: frame.iloc[:count],
    "timestamps": lambda frame, fine, coarse: frame,
}
