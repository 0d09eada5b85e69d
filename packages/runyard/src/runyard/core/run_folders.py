"""Folders that the processes of runs use: apart from the home's private files, so that another user id can enter them.

Each is a folder of the home, or a symbolic link there to a folder below RUNYARD_RUN_ROOT. The link is the record:
service, agent, supervisors and gateway find the same folder, whatever their own variables are.
"""

import hashlib
import os
import re
from pathlib import Path

from runyard.core.errors import InvalidArgument

ENVIRONMENTS, SDK, SCRIPTS, MOUNTS = "environments", "sdk", "scripts", "mounts"
RUN_FOLDERS = (ENVIRONMENTS, SDK, SCRIPTS, MOUNTS)
SCRIPT_FOLDERS = ("work", "uploads", "data")
"""Folders of a node task that its script may write to."""
_SAFE = re.compile(r"\w[\w.\-]*")
_LONGEST_NAME_BYTES = 200


def environments_root(home: Path) -> Path:
    """Folder where environments are built and cached."""
    return _place(home, ENVIRONMENTS)


def sdk_root(home: Path) -> Path:
    """Folder of copies of the SDK, for PYTHONPATH of scripts."""
    return _place(home, SDK)


def scripts_root(home: Path) -> Path:
    """Folder that scripts work in, with a folder for each node task."""
    return _place(home, SCRIPTS)


def mounts_root(home: Path) -> Path:
    """Folder where the data of runs is mounted, with a folder for each node task."""
    return _place(home, MOUNTS)


def script_folders(home: Path) -> tuple[Path, Path]:
    """Folders that may hold folders of scripts: version 0.1.0 and earlier put them beside the plan."""
    return scripts_root(home), home / "attempts"


def task_folder_name(part: str) -> str:
    """Name of a node task's folder below `attempts/` and `scripts/`. Raises InvalidArgument."""
    if not _SAFE.fullmatch(part):
        raise InvalidArgument(
            f"{part!r} is not the name of an attempt.", hint="Expected letters, digits, '_', '-' and '.'."
        )
    name = part.encode()
    if len(name) <= _LONGEST_NAME_BYTES:
        return part
    return f"{name[:120].decode(errors='ignore')}-{hashlib.sha256(name).hexdigest()[:32]}"


def _place(home: Path, name: str) -> Path:
    """Resolve the link: a process of another user could not pass through the home."""
    try:
        return Path(os.readlink(home / name))
    except OSError:  # a folder, or nothing yet
        return home / name
