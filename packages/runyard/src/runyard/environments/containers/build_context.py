"""Build contexts for Dockerfiles, and the parts of a Dockerfile that we read or change."""

import io
import json
import re
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO

from runyard.core.errors import InvalidArgument
from runyard.environments.containers.records import BuildContext
from runyard.environments.containers.transport import tar_writer
from runyard.environments.planning.image import FROM

IN_MEMORY = 8 << 20
_DEFAULT = re.compile(r"^[^\S\n]*+ARG\s++(?P<name>\w++)=(?P<value>\S++)", re.I | re.M)


def build_context(dockerfile: str, files: Iterable[tuple[str, Path, int]] = ()) -> BuildContext:
    """Make a build context of `files`, each (name in the context, path, mode). The same content gives the same archive,
    so that the engine's layer cache works."""
    archive: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - the build reads it
    names: set[str] = set()
    with tar_writer(archive) as tar:
        for name, path, mode in sorted(files, key=lambda entry: entry[0]):
            names.add(_checked(name))
            with path.open("rb") as content:
                tar.addfile(_entry(name, path.stat().st_size, mode), content)
        own = "Dockerfile"
        while own in names:
            own = f".{own}"
        text = dockerfile.encode()
        tar.addfile(_entry(own, len(text), 0o644), io.BytesIO(text))
    return BuildContext(archive, own, base_images(dockerfile))


def base_images(dockerfile: str) -> tuple[str, ...]:
    """Images in FROM lines, without the build's own stages and `scratch`; ARGs are replaced by their defaults."""
    defaults = {found["name"]: found["value"].strip("\"'") for found in _DEFAULT.finditer(dockerfile)}
    stages, bases = {"scratch"}, []
    for found in FROM.finditer(dockerfile):
        base = re.sub(r"\$\{?(\w+)\}?", lambda name: defaults.get(name[1], name[0]), found["base"])
        if base.lower() not in stages and base not in bases:
            bases.append(base)
        if found["stage"]:
            stages.add(found["stage"].lower())
    return tuple(bases)


def _checked(name: str) -> str:
    path = PurePosixPath(name)
    if not name or "\0" in name or path.is_absolute() or ".." in path.parts:
        raise InvalidArgument(
            f"{name!r} is no name of a file in a build context.",
            hint="Names are relative to the context's folder and stay below it.",
        )
    return str(path)


def _entry(name: str, size: int, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(_checked(name))
    entry.size, entry.mode = size, mode & 0o777 or 0o644
    return entry


_ESCAPE = re.compile(r"#\s*escape\s*=\s*(?P<character>[\\`])\s*$", re.IGNORECASE)
_DIRECTIVE = re.compile(r"#\s*\w+\s*=")


def declare_arguments(dockerfile: str, names: Iterable[str], labels: Mapping[str, str] | None = None) -> str:
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
