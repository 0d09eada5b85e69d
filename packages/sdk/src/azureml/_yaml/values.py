"""YAML values, independent of the parser that found them.

Plain text is null, a boolean (true, yes, on, ...), a decimal number, or else text: versions, dates and times stay text.
Keys are always text. Rejected are a repeated key, a tag, a key that is no text, and a document that is larger or deeper
than any real file.
"""
import re

MAX_CHARACTERS = 1024 * 1024
MAX_DEPTH = 100
MAX_WEIGHT = 4 * MAX_CHARACTERS
"""Limits of a document; every alias counts with the size of its value."""
_MERGE = "<<"
_NUMBER = r"[-+]?([0-9]+|[0-9]+\.[0-9]*([eE][-+]?[0-9]+)?|\.[0-9]+|[0-9]+[eE][-+]?[0-9]+)\Z"
_MAX_DIGITS = 300
_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False, "yes": True, "no": False, "on": True,
          "off": False}
_UNREADABLE = r"[^\t\n -~\xa0-\u2027\u202a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
_HALVES = r"[\ud800-\udfff]"


class YamlError(ValueError):
    """The text is not valid YAML; the message names the line."""


def checked_text(text):
    """Text with normalised line ends, the last line included. Raises YamlError when it is too long or not printable."""
    if len(text) > MAX_CHARACTERS:
        raise YamlError("The text has more than %d characters; a file of that size is not read." % MAX_CHARACTERS)
    text = text.lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    found = re.search(_UNREADABLE, text)
    if found:
        raise YamlError("Line %d holds the character %s. Write it as an escape in double quotes." % (
            text.count("\n", 0, found.start()) + 1, ascii(found.group())))
    return text if text.endswith("\n") else text + "\n"


def plain_value(text):
    """Value of a plain scalar."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if len(text) > _MAX_DIGITS or not re.match(_NUMBER, text):
        return text
    if text.lstrip("+-").isdigit():
        return int(text)
    return text if float(text) in (float("inf"), float("-inf")) else float(text)


class _Collection(object):
    """An open mapping or list. `key` is the key whose value comes next; None when a key comes next."""

    __slots__ = ("anchor", "height", "key", "line", "merged", "value", "weight")

    def __init__(self, value, line, anchor, weight):
        self.value, self.line, self.anchor, self.weight = value, line, anchor, weight
        self.key, self.merged, self.height = None, [], 1


class Builder(object):
    """Builds the value of one document from parser events."""

    def __init__(self):
        self.value = None
        self._documents = 0
        self._open = []
        self._anchors = {}
        self._weight = 0

    def document(self, line):
        """Begin a document. Raises YamlError for a second one."""
        self._documents += 1
        if self._documents > 1:
            raise YamlError("Line %d starts another document; one is read." % line)

    def scalar(self, text, line, is_plain, anchor=None):
        text = _whole(text)
        self._count(1 + len(text), line)
        inner = self._open[-1] if self._open else None
        if inner is None or inner.key is not None or isinstance(inner.value, list):
            value = plain_value(text) if is_plain else text
            self._define(anchor, value, 1 + len(text), 0)
            self._place(value, 0, line)
            return
        self._define(anchor, text, 1 + len(text), 0)
        if text in inner.value or (inner.merged and is_plain and text == _MERGE):
            raise YamlError("Line %d repeats the key %r." % (line, text[:80]))
        inner.key = (text, is_plain and text == _MERGE)

    def begin(self, value, line, anchor=None):
        """Begin a mapping or list; `value` is an empty one."""
        self._refuse_as_key(line)
        if len(self._open) >= MAX_DEPTH:
            raise YamlError("Line %d is nested more than %d deep." % (line, MAX_DEPTH))
        if anchor is not None:
            self._anchors[anchor] = None
        self._open.append(_Collection(value, line, anchor, self._weight))
        self._count(1, line)

    def end(self):
        """End the innermost mapping or list."""
        done = self._open.pop()
        value = done.value
        if done.merged:
            value = {}
            for mapping in reversed(done.merged):
                value.update(mapping)
            value.update(done.value)
        self._define(done.anchor, value, self._weight - done.weight, done.height)
        self._place(value, done.height, done.line)

    def alias(self, name, line):
        self._refuse_as_key(line)
        if name not in self._anchors:
            raise YamlError("Line %d uses *%s, but no &%s stands before it." % (line, name, name))
        if self._anchors[name] is None:
            raise YamlError("Line %d uses *%s inside of what it stands for." % (line, name))
        value, weight, height = self._anchors[name]
        self._count(weight, line)
        if len(self._open) + height > MAX_DEPTH:
            raise YamlError("Line %d is nested more than %d deep." % (line, MAX_DEPTH))
        self._place(_copied(value), height, line)

    def _place(self, value, height, line):
        if not self._open:
            self.value = value
            return
        inner = self._open[-1]
        inner.height = max(inner.height, height + 1)
        if isinstance(inner.value, list):
            inner.value.append(value)
            return
        (key, is_merge), inner.key = inner.key, None
        if is_merge:
            inner.merged = _mergeable(value, line)
        else:
            inner.value[key] = value

    def _refuse_as_key(self, line):
        inner = self._open[-1] if self._open else None
        if inner is not None and isinstance(inner.value, dict) and inner.key is None:
            raise YamlError("Line %d has a key that is no text. Write the key out." % line)

    def _define(self, anchor, value, weight, height):
        if anchor is not None:
            self._anchors[anchor] = (value, weight, height)

    def _count(self, weight, line):
        self._weight += weight
        if self._weight > MAX_WEIGHT:
            raise YamlError("Line %d makes the text stand for more than %d characters, its aliases written out." % (
                line, MAX_WEIGHT))


def _mergeable(value, line):
    found = value if isinstance(value, list) else [value]
    if not all(isinstance(each, dict) for each in found):
        raise YamlError("Line %d merges something that is no mapping; write '<<: *name' of a mapping." % line)
    return found


def _whole(text):
    """Join surrogate pairs that were written as two escapes, as JSON does."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass") if re.search(
        _HALVES, text) else text


def _copied(value):
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value
