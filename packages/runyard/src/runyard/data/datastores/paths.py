"""Checks of paths below the root of a store, and the errors of all stores that name a path."""

import re
from functools import lru_cache

from runyard.core.errors import AlreadyExists, InvalidArgument, SourceChanged
from runyard.core.names import check_relative_path, check_text, quoted_text

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@lru_cache(maxsize=1 << 14)  # called for every block that is read
def check_path(path: str) -> str:
    """Normalize the path of one file: no '.' and no doubled '/'. Raises InvalidArgument."""
    return check_relative_path(path, "path")


def check_prefix(prefix: str) -> str:
    """Normalize the prefix of a listing. Empty means all files; the last name may be incomplete."""
    check_text(prefix, "path")
    if prefix.startswith("/"):
        raise InvalidArgument(f"path {quoted_text(prefix)} is absolute.", hint="Give a path relative to the datastore.")
    if "\0" in prefix:
        raise InvalidArgument(f"path {quoted_text(prefix)} holds a NUL character.", hint="Give a path without it.")
    folder, slash, name = prefix.rpartition("/")
    if name == "..":
        raise InvalidArgument(f"path {quoted_text(prefix)} leads out of its root.", hint="Give a path without '..'.")
    names = [part for part in folder.split("/") if part not in ("", ".")]
    return f"{check_path('/'.join(names))}{slash}{name}" if names else name


@lru_cache(maxsize=1 << 14)
def check_key(path: str, *, takes_backslash: bool = True) -> str:
    """Normalize the path of one object, as `check_path`. Also refuses characters that object stores do not take."""
    key = check_path(path)
    if _CONTROL.search(key):
        raise InvalidArgument(
            f"path {quoted_text(key)} holds a control character, such as a line end, which object stores do not take.",
            hint="Rename the file.",
        )
    if "\\" in key and not takes_backslash:
        raise InvalidArgument(
            f"path {quoted_text(key)} holds a backslash, which this store takes for '/'.", hint="Rename the file."
        )
    return key


def already_exists(path: str) -> AlreadyExists:
    return AlreadyExists(f"{quoted_text(path)} is there already.", hint="Pass overwrite=True, or choose another path.")


def source_changed(path: str) -> SourceChanged:
    return SourceChanged(
        f"{quoted_text(path)} is not the file it was: it has changed since it was listed.",
        hint="Read it as it is now, by listing it again or making a new version of the dataset.",
    )


def past_end(path: str) -> InvalidArgument:
    return InvalidArgument(f"The part of {quoted_text(path)} that is asked for is not all there: the file ends before.")
