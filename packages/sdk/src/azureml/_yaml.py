"""The part of YAML that conda files and run configurations are written in, and nothing more.

Read: block mappings and sequences, one-line flow lists and mappings, plain and quoted scalars, comments. Anything
else (anchors, tags, block text, several documents) is a YamlError that names the line.
"""
import json
import re

_NUMBER = r"^[-+]?(\d+|\d+\.\d*([eE][-+]?\d+)?|\.\d+|\d+[eE][-+]?\d+)\Z"
_NOT_AS_IT_IS = r"\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff"
_PLAIN = r"^[A-Za-z_/$(][^#\"'\\\x00-\x1f" + _NOT_AS_IT_IS + r"]*\Z"
_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False, "yes": True, "no": False, "on": True,
          "off": False}
_BEYOND = {"&": "an anchor", "*": "an alias", "!": "a tag", "|": "block text", ">": "folded text", "%": "a directive",
           "?": "a complex key", "@": "a reserved character", "`": "a reserved character"}


class YamlError(ValueError):
    """The text is not YAML of the kind read here; the message names the line."""


class _Line(object):
    __slots__ = ("indent", "number", "text")

    def __init__(self, indent, text, number):
        self.indent, self.text, self.number = indent, text, number

    @property
    def is_item(self):
        return self.text == "-" or self.text.startswith("- ")


def loads(text):
    """The value of a YAML text; None for an empty one."""
    lines = _lines(text)
    if not lines:
        return None
    value, used = _block(lines, 0)
    if used < len(lines):
        raise YamlError("Line %d is not indented like the lines before it: %r." % (
            lines[used].number, lines[used].text))
    return value


def dumps(value):
    """YAML text that `loads` reads back as an equal value; mapping order is kept."""
    if isinstance(value, (dict, list, tuple)) and value:
        return "\n".join(_written(value, 0)) + "\n"
    return _scalar_text(value) + "\n"


def _lines(text):
    found = []
    for number, raw in enumerate(re.split("\r\n?|\n", text.lstrip("\ufeff")), 1):
        body = _without_comment(raw).rstrip()
        stripped = body.lstrip(" ")
        if not stripped or (stripped == "---" and not found):
            continue
        if stripped.startswith("\t"):
            raise YamlError("Line %d is indented with a tab; use spaces." % number)
        if stripped in ("---", "..."):
            raise YamlError("Line %d starts another document; one is read." % number)
        found.append(_Line(len(body) - len(stripped), stripped, number))
    return found


def _without_comment(raw):
    at = 0
    while at < len(raw):
        if raw[at] in "\"'" and (at == 0 or raw[at - 1] in " [{,:-"):
            at = _quote_end(raw, at) or len(raw)
        elif raw[at] == "#" and (at == 0 or raw[at - 1] in " \t"):
            return raw[:at]
        else:
            at += 1
    return raw


def _quote_end(text, start):
    """The index after the quote that closes the one at `start`; 0 where none does."""
    quote, at = text[start], start + 1
    while at < len(text):
        if text[at] == "\\" and quote == '"':
            at += 2
        elif text[at] != quote:
            at += 1
        elif quote == "'" and text[at + 1:at + 2] == "'":
            at += 2
        else:
            return at + 1
    return 0


def _block(lines, start):
    """The value that begins at `start`, and the index after it."""
    if lines[start].is_item:
        return _sequence(lines, start)
    if _key_end(lines[start].text) is not None:
        return _mapping(lines, start)
    return _scalar(lines[start].text, lines[start].number), start + 1


def _sequence(lines, start):
    indent, items, at = lines[start].indent, [], start
    while at < len(lines) and lines[at].indent == indent and lines[at].is_item:
        line = lines[at]
        rest = line.text[1:].lstrip(" ")
        if not rest:
            value, at = _nested(lines, at, indent)
        elif _key_end(rest) is None and not rest.startswith("- "):
            value, at = _scalar(rest, line.number), at + 1
        else:
            lines[at] = _Line(indent + len(line.text) - len(rest), rest, line.number)
            value, at = _block(lines, at)
        items.append(value)
    return items, at


def _mapping(lines, start):
    indent, found, at = lines[start].indent, {}, start
    while at < len(lines) and lines[at].indent == indent and not lines[at].is_item:
        line = lines[at]
        end = _key_end(line.text)
        if end is None:
            raise YamlError("Line %d should be 'key: value', got %r." % (line.number, line.text))
        key = _scalar(line.text[:end], line.number)
        key = key if isinstance(key, str) else line.text[:end]
        if key in found:
            raise YamlError("Line %d repeats the key %r." % (line.number, key))
        rest = line.text[end + 1:].strip()
        if rest:
            found[key], at = _scalar(rest, line.number), at + 1
        else:
            found[key], at = _nested(lines, at, indent)
    return found, at


def _nested(lines, at, indent):
    """The block below line `at`; a sequence may stand as deep as its key."""
    after = at + 1
    if after < len(lines):
        deeper = lines[after].indent > indent
        if deeper or (lines[after].indent == indent and lines[after].is_item and not lines[at].is_item):
            return _block(lines, after)
    return None, after


def _key_end(text):
    """Where the colon of 'key: value' stands, or None."""
    if text[0] in "[{":
        return None
    start = 0
    if text[0] in "\"'":
        start = _quote_end(text, 0)
        if start == 0:
            return None
    at = text.find(":", start)
    while at != -1:
        if at + 1 == len(text) or text[at + 1] == " ":
            return at
        at = text.find(":", at + 1)
    return None


def _scalar(text, number):
    if text[0] in "[{":
        value, end = _flow(text, 0, number)
        if text[end:].strip():
            raise YamlError("Line %d goes on after its list or mapping: %r." % (number, text[end:]))
        return value
    return _single(text, number)


def _single(text, number):
    if text[:1] in ("'", '"'):
        return _unquoted(text, number)
    if text[:1] in _BEYOND:
        raise YamlError("Line %d uses %s, which is not read here: %r. Write the value out in quotes." % (
            number, _BEYOND[text[0]], text))
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if re.match(_NUMBER, text):
        return int(text) if text.lstrip("+-").isdigit() else float(text)
    return text


def _unquoted(text, number):
    if len(text) < 2 or text[-1] != text[0]:
        raise YamlError("Line %d has a quote that is not closed: %r." % (number, text))
    if text[0] == "'":
        return text[1:-1].replace("''", "'")
    try:
        return json.loads(text)
    except ValueError:
        raise YamlError("Line %d has an escape that is not read here: %r." % (number, text))


def _flow(text, at, number):
    """A list or mapping written on one line, from `at`; and the index after it."""
    is_list, at = text[at] == "[", at + 1
    items, pairs = [], {}
    while True:
        at = _past_spaces(text, at, number)
        if text[at] == ("]" if is_list else "}"):
            return (items if is_list else pairs), at + 1
        if is_list:
            value, at = _flow_value(text, at, number, ",]")
            items.append(value)
        else:
            key, at = _flow_value(text, at, number, ":")
            pairs[key], at = _flow_value(text, _past_spaces(text, at + 1, number), number, ",}")
        at = _past_spaces(text, at, number)
        if text[at] == ",":
            at += 1


def _flow_value(text, at, number, ends):
    if text[at] in "[{":
        return _flow(text, at, number)
    end = at
    if text[at] in "\"'":
        end = _quote_end(text, at) or len(text)
    while end < len(text) and text[end] not in ends:
        end += 1
    if end >= len(text):
        raise YamlError("Line %d has a list or mapping that is not closed: %r." % (number, text))
    return _single(text[at:end].strip(), number), end


def _past_spaces(text, at, number):
    while at < len(text) and text[at] == " ":
        at += 1
    if at >= len(text):
        raise YamlError("Line %d has a list or mapping that is not closed: %r." % (number, text))
    return at


def _written(value, indent):
    pad = " " * indent
    if isinstance(value, dict):
        pairs = [(_scalar_text(str(key)) + ":", item) for key, item in value.items()]
        deeper = indent + 2
    else:
        pairs = [("-", item) for item in value]
        deeper = indent + 2
    for head, item in pairs:
        if not (isinstance(item, (dict, list, tuple)) and item):
            yield "%s%s %s" % (pad, head, _scalar_text(item))
            continue
        below = list(_written(item, deeper))
        if head == "-":
            below[0] = pad + "- " + below[0][deeper:]
        else:
            yield pad + head
        for line in below:
            yield line


def _scalar_text(value):
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{}"
    if isinstance(value, (list, tuple)):
        return "[]"
    if isinstance(value, (int, float)):
        return repr(value)
    text = str(value)
    is_safe = (re.match(_PLAIN, text) and text == text.strip() and ": " not in text and text[-1] != ":"
               and isinstance(_single(text, 0), str))
    return text if is_safe else json.dumps(text, ensure_ascii=bool(re.search("[" + _NOT_AS_IT_IS + "]", text)))
