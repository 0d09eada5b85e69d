"""What type a column of text has, as the first rows of a file show it. Standard library only."""
import re

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


def inferred_type(texts):
    """The type of a column with these texts, of which the empty ones do not count; as in a stored definition.

    Two kinds are only ever inferred: `number`, whole or not, and `flag`, a truth value written as 0 and 1.
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
    """Whether one of the texts can be nothing but text: it is not empty, no number and neither true nor false."""
    return any(not _NUMBER.match(text) and text.lower() not in ("", "true", "false") for text in map(str.strip, texts))


def shows_truth(texts):
    """Whether all texts that are not empty are true or false."""
    values = {text.strip().lower() for text in texts} - {""}
    return bool(values) and values <= {"true", "false"}


def date_order(texts):
    """Which part of their dates comes first in all texts: "year", "month", "day"; None where they are no dates."""
    for order, form in _ORDERS:
        if all(_is_date(form.match(text)) for text in texts):
            return order
    return None


def format_of(text, order):
    """The strptime format of one text with a date in this order, or None."""
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
