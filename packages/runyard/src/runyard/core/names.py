"""Checks of every name and path that a user may give, before it reaches a store or the disk.

Each `check_*` returns the value or raises InvalidArgument.
"""

import re
from collections.abc import Iterable

from runyard.core.errors import InvalidArgument
from runyard.core.records.assets import AssetKind
from runyard.core.records.files import FileEntry

RESERVED_COMPUTE_NAMES = frozenset({"amlcompute", "local", "containerinstance", "sdk"})
LONGEST_PATH_BYTES = 1024
LONGEST_SEGMENT_BYTES = 255

_EXPERIMENT = re.compile(r"[a-zA-Z0-9][\w-]{0,254}")
_WORKSPACE = re.compile(r"[a-zA-Z0-9][\w-]{2,32}")
_LONGEST_RUN_ID_BYTES = 200
_RUN_ID = re.compile(r"[\w][\w.-]{0,199}")
_JOURNAL = re.compile(r"[\w][\w.~-]{0,249}")
_RANK = re.compile(r"~(\d{1,6})-[^~]*$")
_FOLDER_NAME = re.compile(r"[a-zA-Z0-9_][\w-]{0,126}")
_COMPUTE = re.compile(r"[a-zA-Z][\w-]{0,62}")
_WEB_SERVICE = re.compile(r"[a-z][a-z0-9-]{2,31}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_DRIVE = re.compile(r"[A-Za-z]:")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def check_workspace_name(name: str) -> str:
    return _matching(
        _WORKSPACE, name, "workspace name", "3 to 33 letters, digits, '_' or '-', the first a letter or digit"
    )


def check_experiment_name(name: str) -> str:
    return _matching(
        _EXPERIMENT, name, "experiment name", "1 to 255 letters, digits, '_' or '-', the first a letter or digit"
    )


def check_run_id(run_id: str) -> str:
    rule = "1 to 200 letters, digits, '_', '-' or '.', not beginning with '-' or '.'"
    if len(run_id.encode(errors="surrogatepass")) > _LONGEST_RUN_ID_BYTES:
        rule = f"{rule}, of {_LONGEST_RUN_ID_BYTES} bytes at most: folders have its name"
        raise InvalidArgument(f"{quoted_text(run_id)} is not a valid run_id: it takes {rule}.")
    return _matching(_RUN_ID, run_id, "run_id", rule)


def check_journal_name(name: str, run_id: str) -> str:
    """A journal's name begins with the id of its run, so that no line is stored for another run."""
    _matching(_JOURNAL, name, "journal name", "RUN_ID~RANK-PID-RANDOM.jsonl")
    if "~" in name and name.split("~", 1)[0] != run_id:
        raise InvalidArgument(
            f"Journal {name!r} is not one of run {run_id!r}.", hint="Send it to the run it is named after."
        )
    return name


def journal_rank(name: str) -> int:
    """Rank that wrote the journal; 0 if the name does not contain one."""
    found = _RANK.search(name)
    return int(found[1]) if found else 0


def check_compute_name(name: str) -> str:
    if name.lower() in RESERVED_COMPUTE_NAMES:
        raise InvalidArgument(f"The compute name {name!r} is reserved.", hint="Choose another name.")
    return _matching(_COMPUTE, name, "compute name", "1 to 63 letters, digits, '_' or '-', the first a letter")


def check_web_service_name(name: str) -> str:
    if name != name.lower() and _WEB_SERVICE.fullmatch(name.lower()):
        raise InvalidArgument(
            f"The web service name {name!r} has capital letters.", hint=f"Use small ones: {name.lower()!r}."
        )
    return _matching(
        _WEB_SERVICE,
        name,
        "web service name",
        "3 to 32 lower case letters, digits or '-', the first a letter",
    )


def check_asset_name(kind: AssetKind, name: str) -> str:
    """Kinds whose name becomes a folder or part of NAME:VERSION allow fewer characters than the others."""
    if kind is AssetKind.COMPUTE:
        return check_compute_name(name)
    if kind is AssetKind.DATASTORE:
        return _matching(_FOLDER_NAME, name, "datastore name", "1 to 127 letters, digits, '_' or '-'")
    if kind is AssetKind.WEB_SERVICE:
        return check_web_service_name(name)
    noun = f"{kind.value[:-1]} name"
    if not name or len(name) > 255 or _CONTROL.search(name) or "/" in name or name in (".", ".."):
        raise InvalidArgument(
            f"{quoted_text(name)} is not a {noun}: 1 to 255 characters without '/' or control characters."
        )
    if kind is AssetKind.MODEL and ":" in name:
        raise InvalidArgument(f"{quoted_text(name)} is not a model name: ':' parts a name from its version.")
    return check_text(name, noun)


def check_relative_path(path: str, argument: str) -> str:
    """The path without '.' and doubled '/'. Refuses paths that leave their root or name no file, also by the rules of
    Windows (backslashes, drive letters)."""
    check_text(path, argument)
    if "\0" in path:
        raise InvalidArgument(f"{argument} {quoted_text(path)} holds a NUL character.", hint="Rename the file.")
    if path.startswith(("/", "\\")) or _DRIVE.match(path):
        raise InvalidArgument(f"{argument} {quoted_text(path)} is absolute.", hint="Give a path relative to its root.")
    segments = [segment for segment in path.split("/") if segment not in ("", ".")]
    if ".." in segments or ("\\" in path and ".." in re.split(r"[/\\]", path)):
        raise InvalidArgument(
            f"{argument} {quoted_text(path)} leads out of its root.", hint="Give a path without '..'."
        )
    if not segments or path.endswith("/"):
        raise InvalidArgument(
            f"{argument} {quoted_text(path)} names no file.", hint="Give a file's path relative to its root."
        )
    normal = "/".join(segments)
    too_long = any(len(segment.encode()) > LONGEST_SEGMENT_BYTES for segment in segments)
    if too_long or len(normal.encode()) > LONGEST_PATH_BYTES:
        raise InvalidArgument(
            f"{argument} {quoted_text(path)} is too long: at most {LONGEST_PATH_BYTES} bytes, "
            f"{LONGEST_SEGMENT_BYTES} for each name in it."
        )
    return normal


def check_sha256(value: str) -> str:
    return _matching(_SHA256, value, "sha256", "64 lower case hexadecimal digits")


def check_text(value: str, argument: str) -> str:
    """Refuses strings that UTF-8 cannot encode, such as file names with undecodable bytes."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(f"{argument} {quoted_text(value)} is not valid Unicode.", hint="Rename it.") from None
    return value


def check_entries(entries: Iterable[FileEntry]) -> None:
    """Refuses a path that occurs twice, or that is both a file and a folder."""
    files: set[str] = set()
    for entry in entries:
        if entry.path in files:
            raise InvalidArgument(f"The path {quoted_text(entry.path)} is given twice.")
        files.add(entry.path)
    for path in files:
        parent = path.rpartition("/")[0]
        while parent:
            if parent in files:
                raise InvalidArgument(f"{quoted_text(parent)} is a file and a folder at once.")
            parent = parent.rpartition("/")[0]


def _matching(pattern: re.Pattern[str], value: str, argument: str, rule: str) -> str:
    if not pattern.fullmatch(value):
        raise InvalidArgument(f"{quoted_text(value)} is not a valid {argument}: it takes {rule}.")
    return value


def quoted_text(value: str) -> str:
    """Quote a name or path for a message: ASCII, at most 80 characters of it."""
    return ascii(value if len(value) <= 80 else value[:77] + "...")
