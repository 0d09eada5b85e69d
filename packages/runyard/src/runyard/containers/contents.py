"""Build contexts for Dockerfiles, and the parts of a Dockerfile that we read or change."""

import io
import re
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import IO

from runyard.containers.archives import writing_tar
from runyard.containers.records import BuildContext
from runyard.errors import InvalidArgument
from runyard.planning.image import FROM

IN_MEMORY = 8 << 20
_DEFAULT = re.compile(r"^[^\S\n]*+ARG\s++(?P<name>\w++)=(?P<value>\S++)", re.I | re.M)


def build_context(dockerfile: str, files: Iterable[tuple[str, Path, int]] = ()) -> BuildContext:
    """Make a build context of `files`, each (name in the context, path, mode). The same content gives the same archive,
    so that the engine's layer cache works."""
    archive: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - the build reads it
    names: set[str] = set()
    with writing_tar(archive) as tar:
        for name, path, mode in sorted(files, key=lambda entry: entry[0]):
            names.add(_checked(name))
            with path.open("rb") as content:
                tar.addfile(_entry(name, path.stat().st_size, mode), content)
        own = "Dockerfile"
        while own in names:
            own = f".{own}"
        text = dockerfile.encode()
        tar.addfile(_entry(own, len(text), 0o644), io.BytesIO(text))
    return BuildContext(archive, own, bases_of(dockerfile))


def bases_of(dockerfile: str) -> tuple[str, ...]:
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
