"""Which rows of a frame a stored condition holds for."""
from azureml.data._tables.libraries import pandas_for
from azureml.exceptions import UserErrorException

_COMPARISONS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


def holds(condition, frame):
    """A boolean column: True for the rows of the frame that the condition holds for; a null is like nothing."""
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
    """The names of all columns that a condition speaks of."""
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
        right = _time(left.name, right)
    try:
        found = getattr(left, _COMPARISONS[sign])(right)
    except TypeError:
        raise UserErrorException("Column %r holds %s values, which cannot be compared with %r by %s. Give it another "
                                 "type with set_column_types." % (left.name, left.dtype, right, sign))
    return found & left.notna() if sign == "!=" else found


def _time(column, text):
    pandas = pandas_for("Comparing times")
    try:
        time = pandas.Timestamp(text)
    except ValueError:
        raise UserErrorException("Column %r holds times and cannot be compared with %r." % (column, text))
    return time.tz_convert("UTC").tz_localize(None) if time.tzinfo is not None else time


_TEXT_TESTS = {"startswith": str.startswith, "endswith": str.endswith, "contains": str.__contains__}
