"""YAML of conda files and run configurations: read by PyYAML where it can be imported, else by our own parser.

The SDK's wheel requires PyYAML. A run has only what its environment holds, so `parser` works without it. Both feed one
`Builder`, which alone decides on values and on what is rejected.
"""

import json
import re

from azureml._yaml.values import MAX_CHARACTERS, Builder, YamlError, checked_text, plain_value

__all__ = ["MAX_CHARACTERS", "YamlError", "dumps", "loads"]
_NOT_AS_IT_IS = r"\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff"
_PLAIN = r"^[A-Za-z_/$(][^#\"'\\\x00-\x1f" + _NOT_AS_IT_IS + r"]*\Z"


def loads(text):
    """Return the value of a YAML text; None for an empty one."""
    text, builder = checked_text(text), Builder()
    library = _library()
    if library is None:
        from azureml._yaml.parser import read
        read(text, builder)
    else:
        _read_with_library(library, text, builder)
    return builder.value


def _library():
    """PyYAML, or None where it is missing or another module has its name."""
    try:
        import yaml
    except Exception:  # a user's own yaml.py may raise anything; it must not stop a run that reads a conda file
        return None
    return yaml if hasattr(yaml, "SafeLoader") and hasattr(yaml, "ScalarEvent") else None


def dumps(value):
    """Return YAML text that `loads` reads back as an equal value; mapping order is kept."""
    if isinstance(value, (dict, list, tuple)) and value:
        return "\n".join(_written(value, 0)) + "\n"
    return _scalar_text(value) + "\n"


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
               and isinstance(plain_value(text), str))
    return text if is_safe else _quoted(text)


def _quoted(text):
    is_ascii_only = bool(re.search("[" + _NOT_AS_IT_IS + "]", text))
    return json.dumps(text, ensure_ascii=is_ascii_only).replace("\x7f", "\\x7f")


def _read_with_library(yaml, text, builder):
    """Pass PyYAML's events to the builder. Its constructors are not used: they make dates and share aliased values."""
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            _emit(yaml, event, builder)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise YamlError("Line %d cannot be read: %s." % (
            mark.line + 1 if mark else 1, getattr(error, "problem", None) or error))


def _emit(yaml, event, builder):
    line = event.start_mark.line + 1
    if getattr(event, "tag", None) is not None:
        raise YamlError("Line %d uses a tag, which is not read here: %r. Write the value out in quotes." % (
            line, event.tag))
    if isinstance(event, yaml.ScalarEvent):
        builder.scalar(event.value, line, is_plain=event.implicit[0], anchor=event.anchor)
    elif isinstance(event, yaml.AliasEvent):
        builder.alias(event.anchor, line)
    elif isinstance(event, yaml.MappingStartEvent):
        builder.begin({}, line, event.anchor)
    elif isinstance(event, yaml.SequenceStartEvent):
        builder.begin([], line, event.anchor)
    elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
        builder.end()
    elif isinstance(event, yaml.DocumentStartEvent):
        builder.document(line)
