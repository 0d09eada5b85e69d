"""Partition formats: parts of a file's path that become columns, such as '/{country}/{day:yyyy/MM/dd}/data.csv'."""
import operator
import re

from azureml.exceptions import UserErrorException

_TIME_PARTS = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}
_COMPARISONS = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "startswith": str.startswith, "endswith": str.endswith, "contains": str.__contains__}
_FIELD = re.compile(r"\{([^{}:]+)(?::([^{}]+))?\}")


class PartitionFormat(object):
    """Partition format: {name} is text, {name:yyyy/MM/dd/HH/mm/ss} a time, `*` any part of a path.

    Describes the end of a path, from the first key on. None means no keys. Raises UserErrorException where it names no
    key, a key twice, or a time in another notation. `keys` are in order, `time_formats` the strptime formats of time
    keys.
    """

    def __init__(self, text):
        self.keys = []
        self.time_formats = {}
        self._pattern = None
        if text is not None:
            self._pattern = re.compile(_backwards(self._parts(text)))

    def values_of(self, path):
        """{key: str or datetime} of a whole path; None if it does not match."""
        if self._pattern is None:
            return {}
        found = self._pattern.match(("/" + path.lstrip("/"))[::-1])
        if found is None:
            return None
        texts = {key: found.group("key%d" % number)[::-1] for number, key in enumerate(self.keys)}
        try:
            return {key: self._value(key, text) for key, text in texts.items()}
        except ValueError:
            return None

    def combinations(self, files, keys=None):
        """Distinct combinations of values of `keys` (all if None) among the files, as dicts in order."""
        wanted = self.keys if keys is None else list(keys)
        unknown = [key for key in wanted if key not in self.keys]
        if unknown:
            raise UserErrorException("partition_keys names %r; the dataset's partition keys are %s." % (
                unknown[0], ", ".join(map(repr, self.keys)) or "none: give from_files a partition_format"))
        found = []
        if wanted:
            seen = set()
            for file in files:
                values = self.values_of(whole_path(file))
                combination = values and tuple(values[key] for key in wanted)
                if combination and combination not in seen:
                    seen.add(combination)
                    found.append(dict(zip(wanted, combination)))
        return found

    def on_paths(self, expression, columns, list_files):
        """Turn comparisons of partition keys in the expression into comparisons of paths, which the service evaluates.

        Other comparisons may only name `columns`. `list_files` is called only if there is something to turn.
        """
        names = _columns_in(expression)
        unknown = [name for name in names if name not in columns and name not in self.keys]
        if unknown:
            raise UserErrorException("expression names the column %r; known are %s." % (
                unknown[0], ", ".join(map(repr, list(columns) + self.keys))))
        if not set(names) & set(self.keys):
            return expression
        files = [("/" + file["path"], self.values_of(whole_path(file)) or {}) for file in list_files()]
        return _turned(expression, files, set(self.keys))

    def _parts(self, text):
        """(is_wide, backward expression) of each literal, key and `*`, in order. A wide part matches any text without
        '/'."""
        if not isinstance(text, str) or not _FIELD.search(text):
            raise UserErrorException("partition_format must name at least one key, as in '/{year}/data.csv'; got "
                                     "%r." % (text,))
        made, at = [], 0
        for field in _FIELD.finditer(text):
            made += _literals(text[at:field.start()]) + [self._field(text, field.group(1), field.group(2))]
            at = field.end()
        return made + _literals(text[at:])

    def _field(self, text, key, time):
        if key in self.keys:
            raise UserErrorException("partition_format names %r twice: %r." % (key, text))
        self.keys.append(key)
        name = "?P<key%d>" % (len(self.keys) - 1)
        if time is None:
            return True, "(" + name + "[^/]+%s)"
        letters = re.findall(r"[A-Za-z]+", time)
        if [letter for letter in letters if letter not in _TIME_PARTS]:
            raise UserErrorException("partition_format takes times written with yyyy, MM, dd, HH, mm and ss; got %r in "
                                     "%r." % (time, text))
        self.time_formats[key] = re.sub(r"[A-Za-z]+", lambda part: _TIME_PARTS[part.group()], time.replace("%", "%%"))
        digits = re.sub(r"[A-Za-z]+", lambda part: r"\d{%d}" % len(part.group()), re.escape(time[::-1]))
        return False, "(" + name + digits + ")"

    def _value(self, key, text):
        if key not in self.time_formats:
            return text
        from datetime import datetime
        return datetime.strptime(text, self.time_formats[key])


def whole_path(file):
    """Path that formats describe: on the datastore, or the URL, which may begin above the dataset's root."""
    return file.get("key") or file["path"]


def _columns_in(expression):
    if not isinstance(expression, list):
        return []
    if expression[0] == "column":
        return [expression[1]]
    return [name for part in expression[1:] for name in _columns_in(part)]


def _turned(expression, files, keys):
    if expression[0] in ("and", "or", "not"):
        return [expression[0]] + [_turned(part, files, keys) for part in expression[1:]]
    if not set(_columns_in(expression)) & keys:
        return expression
    return _any_of([path for path, values in files if _holds(expression, values)])


def _holds(comparison, values):
    left, right = _operand(comparison[1], values), _operand(comparison[2], values)
    return left is not None and right is not None and _COMPARISONS[comparison[0]](left, right)


def _operand(operand, values):
    if not isinstance(operand, list):
        return operand
    found = values.get(operand[1])
    return found.isoformat() if hasattr(found, "isoformat") else found


def _any_of(paths):
    """Condition "path is one of these", as a balanced tree of pairs."""
    if not paths:
        return ["not", ["startswith", ["column", "Path"], ""]]
    if len(paths) == 1:
        return ["==", ["column", "Path"], paths[0]]
    middle = len(paths) // 2
    return ["or", _any_of(paths[:middle]), _any_of(paths[middle:])]


def _literals(text):
    made = []
    for part in text.split("*"):
        made += [(True, "[^/]*%s"), (False, re.escape(part[::-1]))]
    return made[1:]


def _backwards(parts):
    """Regular expression for the reversed path, linear in its length.

    Earlier parts are greedy, so a later part matches at its last position: the first from the end, matched atomically.
    """
    expression, wide, fixed = "", "", ""
    for number, (is_wide, text) in enumerate(reversed(parts)):
        if is_wide:
            # An atomic group, written for Python 3.6.
            expression += "(?=(?P<once{0}>{1}))(?P=once{0})".format(number, wide % "?" + fixed) if wide else fixed
            wide, fixed = text, ""
        else:
            fixed += text
    return expression + (wide % "" if wide else "") + fixed
