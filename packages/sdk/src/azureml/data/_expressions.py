"""Column expressions: `dataset['a'] > 3`, `&`, `|`, `~`, `.startswith('x')`, and their JSON in a definition."""
from azureml.exceptions import UserErrorException


def column(name):
    """The column `name`, to be compared in a filter."""
    if not isinstance(name, str) or not name:
        raise UserErrorException("A column is named by a text such as dataset['age'], got %r." % (name,))
    return ColumnExpression(name)


def checked(expression, argument="expression"):
    """JSON of a filter condition. Raises UserErrorException where `expression` is none."""
    if isinstance(expression, Condition):
        return expression.to_json()
    hint = ""
    if isinstance(expression, ColumnExpression):
        hint = " A column alone is no condition; compare it, as in dataset[%r] == True." % expression.name
    raise UserErrorException(
        "%s must be a condition made of columns, such as (dataset['age'] > 30) & (dataset['city'] == 'Rome'); got %r."
        "%s" % (argument, expression, hint))


class ColumnExpression(object):
    """A column of a dataset. Comparing it returns a Condition."""

    __hash__ = None

    def __init__(self, name):
        self.name = name

    def __eq__(self, other):
        return self._compared("==", other)

    def __ne__(self, other):
        return self._compared("!=", other)

    def __lt__(self, other):
        return self._compared("<", other)

    def __le__(self, other):
        return self._compared("<=", other)

    def __gt__(self, other):
        return self._compared(">", other)

    def __ge__(self, other):
        return self._compared(">=", other)

    def startswith(self, value):
        return self._compared("startswith", _text("startswith", value))

    def endswith(self, value):
        return self._compared("endswith", _text("endswith", value))

    def contains(self, value):
        return self._compared("contains", _text("contains", value))

    def is_null(self):
        return self._compared("==", None)

    def to_json(self):
        return ["column", self.name]

    def __bool__(self):
        raise _no_truth()

    def __repr__(self):
        return "dataset[%r]" % self.name

    def _compared(self, operator, other):
        return Condition([operator, self.to_json(), operand(other)])


class Condition(object):
    """A condition on each row; combined with `&`, `|` and `~`."""

    def __init__(self, parts):
        self._parts = parts

    def to_json(self):
        return self._parts

    def __and__(self, other):
        return Condition(["and", self._parts, checked(other, "The right side of &")])

    def __or__(self, other):
        return Condition(["or", self._parts, checked(other, "The right side of |")])

    def __invert__(self):
        return Condition(["not", self._parts])

    def __bool__(self):
        raise _no_truth()

    def __repr__(self):
        return _readable(self._parts)


def operand(value):
    """JSON of a comparison operand: a number, text, boolean, None, time, or another column."""
    if isinstance(value, ColumnExpression):
        return value.to_json()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if hasattr(value, "item"):
        return operand(value.item())
    raise UserErrorException("A column can be compared with a number, a text, True or False, None, a datetime or "
                             "another column, not with %r." % (value,))


def _text(method, value):
    if isinstance(value, str):
        return value
    raise UserErrorException("%s takes a text, got %r." % (method, value))


def _no_truth():
    return UserErrorException("A column expression has no truth value of its own. Join conditions with & (and), | (or) "
                              "and ~ (not), each in parentheses: (dataset['a'] > 3) & (dataset['b'] < 5).")


def _readable(parts):
    if not isinstance(parts, list):
        return repr(parts)
    if parts[0] == "column":
        return "dataset[%r]" % parts[1]
    if parts[0] == "not":
        return "~(%s)" % _readable(parts[1])
    if parts[0] in ("startswith", "endswith", "contains"):
        return "%s.%s(%s)" % (_readable(parts[1]), parts[0], _readable(parts[2]))
    sign = {"and": "&", "or": "|"}.get(parts[0])
    shown = "(%s) %s (%s)" if sign else "%s %s %s"
    return shown % (_readable(parts[1]), sign or parts[0], _readable(parts[2]))
