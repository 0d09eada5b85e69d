import json
import re

from azureml._yaml.values import plain_value

_NOT_AS_IT_IS = r"\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff"
_PLAIN = r"^[A-Za-z_/$(][^#\"'\\\x00-\x1f" + _NOT_AS_IT_IS + r"]*\Z"


def dumps(value):
    """YAML text that `loads` reads back as an equal value; mapping order is kept."""
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
