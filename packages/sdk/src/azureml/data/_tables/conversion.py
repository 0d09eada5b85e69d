"""Columns of a pandas DataFrame converted to the types of a definition."""
import re

from azureml.data._tables.inference import SAMPLE_ROWS, date_order, format_of
from azureml.data._tables.iso_times import iso_times
from azureml.data._tables.libraries import pandas_for
from azureml.exceptions import UserErrorException

_TRUTH = {"true": True, "t": True, "yes": True, "y": True, "1": True, "1.0": True,
          "false": False, "f": False, "no": False, "n": False, "0": False, "0.0": False}
_ROWS_AT_ONCE = 500000
_COMMA_NUMBER = r"[+-]?(?:\d{1,3}(?:\.\d{3})+|\d*)(?:,\d+)?(?:[eE][+-]?\d+)?\Z"


def converted(series, kind, problems):
    """The column as this type; values that cannot be are null in it, and told to `problems`."""
    made = _CONVERSIONS[kind["kind"]](series, kind, problems)
    if made is series:
        return made
    is_null = made.isna()
    if is_null.any():
        lost = series[is_null & series.notna()]
        lost = lost[~_written_as_null(lost, kind["kind"])]
        if len(lost):
            problems.note(series.name, kind["kind"], lost)
    return made


def typed(frame, types, problems):
    """The frame with the columns that `types` names converted, and the others with the types that SDK v1 gives."""
    for name in frame.columns:
        plain = _plain(frame[name])
        frame[name] = converted(plain, types[name], problems) if name in types else plain
    return frame


def _plain(series):
    """Times without a zone, None for null among objects."""
    if series.dtype.kind == "M" or hasattr(series.dtype, "tz"):
        return naive_times(series)
    return with_nulls_as_none(series)


def with_nulls_as_none(series):
    """The same column, with None for what is missing in it where it holds objects."""
    if series.dtype != object:
        return series
    missing = series.isna()
    return series.where(~missing, None) if missing.any() else series


def naive_times(series):
    """Times as datetime64[ns] in UTC without a zone; those out of its range are null."""
    pandas = pandas_for("A column of times")
    if getattr(series.dt, "tz", None) is not None:
        series = series.dt.tz_convert("UTC").dt.tz_localize(None)
    if str(series.dtype) == "datetime64[ns]":
        return series
    try:
        return series.astype("datetime64[ns]")
    except pandas.errors.OutOfBoundsDatetime:
        pass
    within = (series >= pandas.Timestamp.min) & (series <= pandas.Timestamp.max)
    return series.where(within).astype("datetime64[ns]")


def _number(series, kind, problems):
    if series.dtype.kind in "iuf":
        return series
    pandas = pandas_for("A column of numbers")
    return series.astype("int64") if series.dtype == bool else pandas.to_numeric(series, errors="coerce")


def _long(series, kind, problems):
    numbers = _number(series, kind, problems)
    if numbers.dtype.kind in "iu":
        return numbers
    numbers = numbers.where(numbers % 1 == 0)
    is_safe = numbers.notna().all() and (numbers.abs() < 2 ** 63).all()
    return numbers.astype("int64") if is_safe else numbers


def _float(series, kind, problems):
    if kind.get("decimal_mark", ".") == "," and series.dtype.kind == "O":
        series = _translated(series, lambda text: text.replace(".", "").replace(",", ".")
                             if re.match(_COMMA_NUMBER, text) else None)
    return _number(series, kind, problems).astype("float64")


def _bool(series, kind, problems):
    return series if series.dtype == bool else _truth(_translated(series, lambda text: _TRUTH.get(text.lower())))


def _flag(series, kind, problems):
    """0 and 1 become truth values; a column that holds other numbers further down stays one of numbers."""
    numbers = _number(series, kind, problems)
    is_known = numbers.notna()
    if not ((numbers == 0) | (numbers == 1) | ~is_known).all():
        return numbers
    return numbers.astype(bool) if is_known.all() else _truth(numbers.map({0: False, 1: True}))


def _truth(series):
    return with_nulls_as_none(series.astype(object)) if series.isna().any() else series.astype(bool)


def _translated(series, translation):
    """The column with each different value, as text without blanks around it, translated once."""
    known = series[series.notna()].unique()
    return series.map({value: translation(str(value).strip()) for value in known})


def _string(series, kind, problems):
    return series if _is_text(series) else series.astype(object).map(str, na_action="ignore")


def _is_text(series):
    from pandas.api.types import infer_dtype
    if series.dtype != object:
        return series.dtype.kind == "O" and "str" in str(series.dtype)
    return infer_dtype(series, skipna=False) == "string" or infer_dtype(series, skipna=True) in ("string", "empty")


def _datetime(series, kind, problems):
    pandas = pandas_for("A column of times")
    if series.dtype.kind == "M" or hasattr(series.dtype, "tz"):
        return naive_times(series)
    texts = _string(series, kind, problems)
    formats, order = kind.get("formats"), kind.get("order")
    if not formats and order is None and texts.notna().any():
        first = [text.strip() for text in texts.dropna().head(SAMPLE_ROWS)]
        order = date_order(first)
        if order is None:
            raise UserErrorException("The times in column %r are in no form that can be told by itself, such as %r. "
                                     "Name it: DataType.to_datetime('%%d.%%m.%%Y')." % (series.name, first[0]))
    made = iso_times(texts) if order == "year" and not formats else None
    if made is not None:
        return made
    made = _parsed(pandas, texts, formats, problems, order)
    left = made.isna()
    if left.any():
        left &= texts.notna()
    if left.any() and texts[left].str.strip().ne(texts[left]).any():
        made = made.where(~left, _parsed(pandas, texts.where(left).str.strip(), formats, problems, order))
    return made


def _parsed(pandas, texts, formats, problems, order=None):
    """Times of the texts: each format is tried on what is left. Without formats, that of the next text left is."""
    if len(texts) > _ROWS_AT_ONCE:  # pandas makes objects of all texts it is given at once
        return pandas.concat([_parsed(pandas, texts.iloc[start:start + _ROWS_AT_ONCE], formats, problems, order)
                              for start in range(0, len(texts), _ROWS_AT_ONCE)])
    times = pandas.Series(pandas.NaT, index=texts.index, dtype="datetime64[ns]").values.copy()
    is_left, tried, given = texts.notna().values.copy(), set(), iter(formats or ())
    while is_left.any():
        left = texts if is_left.all() else texts[is_left]
        form = next(given, None) if formats else _next_format(left, order, tried)
        if form is None:
            break
        tried.add(form)
        found = _of_one_format(pandas, left, form)
        problems.note_out_of_range(texts.name, left[found.isna()], form)
        times[is_left] = found.values
        is_left[is_left] = found.isna().values
    return pandas.Series(times, index=texts.index, name=texts.name)


def _next_format(texts, order, tried):
    for text in texts:
        form = format_of(text, order)
        if form is not None and form not in tried:
            return form
    return None


def _of_one_format(pandas, texts, form):
    if not form.endswith("%z"):  # old versions take any ISO text for '%Y-%m-%d', with a zone too: hence utc
        return naive_times(pandas.to_datetime(texts, format=form, errors="coerce", utc=True))
    zones = texts.str.extract(r"(Z|[+-]\d\d:?\d\d)$", expand=False)
    bare = texts.where(zones.notna()).str.replace(r" ?(Z|[+-]\d\d:?\d\d)$", "", regex=True)
    local = naive_times(pandas.to_datetime(bare, format=form[:-2].rstrip(), errors="coerce", utc=True))
    return local - pandas.to_timedelta(zones.map(_minutes_ahead, na_action="ignore").astype("float64"), unit="m")


def _minutes_ahead(zone):
    """How far a zone such as +02:00 is ahead of UTC."""
    if zone == "Z":
        return 0
    return (1 if zone[0] == "+" else -1) * (60 * int(zone[1:3]) + int(zone[-2:]))


def _written_as_null(values, kind):
    """Which of the values say themselves that there is none: blank ones, and nan among numbers."""
    texts = values.astype(object).map(lambda value: str(value).strip().lower())
    return texts.isin(["", "nan"] if kind in ("number", "float", "flag") else [""])


_CONVERSIONS = {"bool": _bool, "datetime": _datetime, "flag": _flag, "float": _float, "long": _long,
                "number": _number, "stream": _string, "string": _string}
