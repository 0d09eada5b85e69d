import json
import re
from collections.abc import Iterable, Iterator, Mapping

_ESCAPE = re.compile(r"#\s*escape\s*=\s*(?P<character>[\\`])\s*$", re.IGNORECASE)
_DIRECTIVE = re.compile(r"#\s*\w+\s*=")


def with_arguments(dockerfile: str, names: Iterable[str], labels: Mapping[str, str] | None = None) -> str:
    """Declare build arguments in every stage of a Dockerfile, so that its steps see them as variables; the image does
    not keep them as variables. `labels` mark the images that a broken build leaves."""
    declared = "".join(f"LABEL {_quoted(name)}={_quoted(value)}\n" for name, value in (labels or {}).items())
    declared += "".join(f"ARG {name}\n" for name in sorted(names))
    if not declared:
        return dockerfile
    return "".join(
        f"{lines.rstrip()}\n{declared}" if word == "FROM" else lines for word, lines in _instructions(dockerfile)
    )


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("$", "\\$")


def _instructions(dockerfile: str) -> Iterator[tuple[str, str]]:
    """Instructions as (first word, text), with continuation lines; comments and empty lines have no word."""
    escape, word, begun = _escape_of(dockerfile), "", ""
    for line in dockerfile.splitlines(keepends=True):
        bare = line.strip()
        is_comment = not bare or bare.startswith("#")
        if not begun and is_comment:
            yield "", line
            continue
        word = word or bare.split(maxsplit=1)[0].upper()
        begun += line
        # A comment between the lines of an instruction does not end it.
        if not is_comment and not bare.endswith(escape):
            yield word, begun
            word, begun = "", ""
    if begun:
        yield word, begun


def _escape_of(dockerfile: str) -> str:
    for line in dockerfile.splitlines():
        if found := _ESCAPE.match(line.strip()):
            return found["character"]
        if not _DIRECTIVE.match(line.strip()):
            break
    return "\\"
