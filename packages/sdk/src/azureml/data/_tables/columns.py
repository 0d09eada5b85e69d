"""Columns of a pandas DataFrame: inferred types and conversion to the types of a definition."""

import re

from azureml.data._tables.libraries import has, pandas_for
from azureml.exceptions import UserErrorException

_TRUTH = {"true": True, "t": True, "yes": True, "y": True, "1": True, "1.0": True,
          "false": False, "f": False, "no": False, "n": False, "0": False, "0.0": False}
_ROWS_AT_ONCE = 500000
_COMMA_NUMBER = r"[+-]?(?:\d{1,3}(?:\.\d{3})+|\d*)(?:,\d+)?(?:[eE][+-]?\d+)?\Z"
SAMPLE_ROWS = 200
_NUMBER = re.compile(r"[+-]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?|inf|infinity|nan)\Z",
                     re.IGNORECASE | re.ASCII)
_CLOCK = (r"(?:[ T](?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?P<part>\.\d{1,9})?)?"
          r"(?P<half> ?[AaPp][Mm])?(?P<zone> ?(?:Z|[+-]\d{2}:?\d{2}))?)?\Z")
_YEAR_FIRST = re.compile(r"(?P<year>\d{4})(?P<mark>[-/])(?P<month>\d{1,2})(?P=mark)(?P<day>\d{1,2})" + _CLOCK, re.ASCII)
_MONTH_FIRST = re.compile(r"(?P<month>\d{1,2})(?P<mark>[-/])(?P<day>\d{1,2})(?P=mark)(?P<year>\d{4})" + _CLOCK,
                          re.ASCII)
_DAY_FIRST = re.compile(r"(?P<day>\d{1,2})(?P<mark>[-/])(?P<month>\d{1,2})(?P=mark)(?P<year>\d{4})" + _CLOCK, re.ASCII)
_ORDERS = (("year", _YEAR_FIRST), ("month", _MONTH_FIRST), ("day", _DAY_FIRST))
_DATE_PARTS = {"year": ("%Y", "%m", "%d"), "month": ("%m", "%d", "%Y"), "day": ("%d", "%m", "%Y")}


def converted(series, kind, problems):
    """Convert the column to this type; values that do not fit become null and are reported to `problems`."""
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
    """Convert the columns that `types` names; the others get the types that SDK v1 gives."""
    for name in frame.columns:
        plain = _plain(frame[name])
        frame[name] = converted(plain, types[name], problems) if name in types else plain
    return frame


def _plain(series):
    """Times without tzinfo, and None for null in object columns."""
    if series.dtype.kind == "M" or hasattr(series.dtype, "tz"):
        return naive_times(series)
    return with_nulls_as_none(series)


def with_nulls_as_none(series):
    """The column, with None for missing values if it holds objects."""
    if series.dtype != object:
        return series
    missing = series.isna()
    return series.where(~missing, None) if missing.any() else series


def naive_times(series):
    """Times as datetime64[ns] in UTC without tzinfo; out-of-range ones are null."""
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
    """0 and 1 become booleans; a column with other numbers further down stays numeric."""
    numbers = _number(series, kind, problems)
    is_known = numbers.notna()
    if not ((numbers == 0) | (numbers == 1) | ~is_known).all():
        return numbers
    return numbers.astype(bool) if is_known.all() else _truth(numbers.map({0: False, 1: True}))


def _truth(series):
    return with_nulls_as_none(series.astype(object)) if series.isna().any() else series.astype(bool)


def _translated(series, translation):
    """The column with each distinct value, stripped, translated once."""
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
    """Times of the texts. Each format is tried on what is left; without formats, the format of the next text left."""
    if len(texts) > _ROWS_AT_ONCE:  # in blocks: pandas makes objects of all texts it is given
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
    if not form.endswith("%z"):  # old versions accept any ISO text for '%Y-%m-%d', with a zone too: hence utc
        return naive_times(pandas.to_datetime(texts, format=form, errors="coerce", utc=True))
    zones = texts.str.extract(r"(Z|[+-]\d\d:?\d\d)$", expand=False)
    bare = texts.where(zones.notna()).str.replace(r" ?(Z|[+-]\d\d:?\d\d)$", "", regex=True)
    local = naive_times(pandas.to_datetime(bare, format=form[:-2].rstrip(), errors="coerce", utc=True))
    return local - pandas.to_timedelta(zones.map(_minutes_ahead, na_action="ignore").astype("float64"), unit="m")


def _minutes_ahead(zone):
    """Offset of a zone such as +02:00 in minutes."""
    if zone == "Z":
        return 0
    return (1 if zone[0] == "+" else -1) * (60 * int(zone[1:3]) + int(zone[-2:]))


def _written_as_null(values, kind):
    """Which values are written as null: blank ones, and nan among numbers."""
    texts = values.astype(object).map(lambda value: str(value).strip().lower())
    return texts.isin(["", "nan"] if kind in ("number", "float", "flag") else [""])


_CONVERSIONS = {"bool": _bool, "datetime": _datetime, "flag": _flag, "float": _float, "long": _long,
                "number": _number, "stream": _string, "string": _string}


class TextColumns(object):
    """Chooses the columns to read without a type, and checks afterwards that nothing was lost.

    pandas infers types in chunks of a file: a chunk of a text column with nothing but 007 becomes the number 7. Since
    3.1 pandas reads such columns several times faster.
    """

    def __init__(self):
        self._expected = {}
        self._text_type, self._are_quicker = None, False

    def consider(self, name, kind, texts):
        """Learn from the first texts of a column of this type."""
        if self._text_type is None:
            self._text_type = pandas_for("Reading delimited files").Series(["text"]).dtype
            self._are_quicker = self._text_type != object and has("pyarrow")
        if self._are_quicker and shows_text(texts):
            self._expected[name] = self._is_text
        elif self._are_quicker and kind == "bool" and shows_truth(texts):
            self._expected[name] = _is_truth

    def __contains__(self, name):
        return name in self._expected

    def are_whole(self, frame):
        """Whether the columns came as expected. Those that did not are read as text from now on."""
        lost = [name for name in frame.columns if name in self and not self._expected[name](frame[name])]
        for name in lost:
            del self._expected[name]
        return not lost

    def _is_text(self, series):
        return series.dtype == self._text_type


def _is_truth(series):
    from pandas.api.types import infer_dtype
    return series.dtype == bool or infer_dtype(series, skipna=True) == "boolean"


def inferred_type(texts):
    """Type of a column with these texts, ignoring empty ones; as in a stored definition.

    Two types are only inferred: `number`, integer or not, and `flag`, a boolean written as 0 and 1.
    """
    values = {text.strip() for text in texts if text}
    values.discard("")
    if not values:
        return {"kind": "string"}
    lowered = {value.lower() for value in values}
    if lowered <= {"0", "1"}:
        return {"kind": "flag"}
    if lowered <= {"true", "false", "0", "1"} or lowered in ({"t", "f"}, {"y", "n"}):
        return {"kind": "bool"}
    if all(_NUMBER.match(value) for value in values):
        return {"kind": "number"}
    order = date_order(values)
    return {"kind": "datetime", "formats": None, "order": order} if order else {"kind": "string"}


def shows_text(texts):
    """Whether one of the texts can only be text: not empty, no number, neither true nor false."""
    return any(not _NUMBER.match(text) and text.lower() not in ("", "true", "false") for text in map(str.strip, texts))


def shows_truth(texts):
    """Whether all non-empty texts are true or false."""
    values = {text.strip().lower() for text in texts} - {""}
    return bool(values) and values <= {"true", "false"}


def date_order(texts):
    """Order of the dates in all texts: "year", "month" or "day" first; None if they are no dates."""
    for order, form in _ORDERS:
        if all(_is_date(form.match(text)) for text in texts):
            return order
    return None


def format_of(text, order):
    """strptime format of a text with a date in this order, or None."""
    found = dict(_ORDERS)[order].match(text.strip())
    if not _is_date(found):
        return None
    date = found.group("mark").join(_DATE_PARTS[order])
    if found.group("hour") is None:
        return date
    clock = "%I:%M" if found.group("half") else "%H:%M"
    if found.group("second"):
        clock += ":%S" + (".%f" if found.group("part") else "")
    half = (" " if (found.group("half") or "").startswith(" ") else "") + "%p" if found.group("half") else ""
    zone = (" " if (found.group("zone") or "").startswith(" ") else "") + "%z" if found.group("zone") else ""
    return date + found.string[found.start("hour") - 1] + clock + half + zone


def _is_date(found):
    return bool(found) and 1 <= int(found.group("month")) <= 12 and 1 <= int(found.group("day")) <= 31


def iso_times(series):
    """The column's times as datetime64[ns] in UTC if all are ISO 8601 texts that inference knows; else None."""
    if getattr(series.dtype, "storage", None) != "pyarrow":
        return None
    import numpy
    import pandas
    texts = series.array.__arrow_array__()
    times, at = numpy.empty(len(texts), "datetime64[ns]"), 0
    for part in getattr(texts, "chunks", [texts]):
        found = _times(part)
        if found is None:
            return None
        times[at:at + len(part)] = found.to_numpy(zero_copy_only=False)
        at += len(part)
    return pandas.Series(times, index=series.index, name=series.name)


def _times(texts):
    """Arrow array of the times, or None: Arrow also accepts hours alone, as time and as zone offset."""
    import pyarrow
    from pyarrow import compute
    span = compute.min_max(texts).as_py()
    if span["min"] is not None and (span["min"] < "1678" or span["max"] >= "2262"):
        return None  # not every version of Arrow notices that nanoseconds cannot hold these
    is_zoned = (span["min"] or "").endswith("Z")
    if is_zoned and not compute.all(compute.ends_with(texts, "Z")).as_py():
        return None
    hours_alone = len("2019-01-02 03Z") if is_zoned else len("2019-01-02 03")
    if compute.any(compute.equal(compute.binary_length(texts), hours_alone)).as_py():
        return None
    try:
        return compute.cast(texts, pyarrow.timestamp("ns", "UTC" if is_zoned else None))
    except pyarrow.ArrowInvalid:
        return None
