"""Folders that the processes of runs must enter: apart from the home's private files, so that another user id can.

Each is a folder of the home, or a symbolic link there to where the operator wants it (RUNYARD_RUN_ROOT). The link is
the record: service, agent, supervisors and gateway all find the same place, whatever their own variables are.
"""

import os
from pathlib import Path

ENVIRONMENTS, SDK, SCRIPTS, MOUNTS = "environments", "sdk", "scripts", "mounts"
RUN_FOLDERS = (ENVIRONMENTS, SDK, SCRIPTS, MOUNTS)


def environments_root(home: Path) -> Path:
    """Where environments are built and cached."""
    return _place(home, ENVIRONMENTS)


def sdk_root(home: Path) -> Path:
    """Copies of the SDK, for the path of every script."""
    return _place(home, SDK)


def scripts_root(home: Path) -> Path:
    """What scripts work in, a folder for each part of an attempt."""
    return _place(home, SCRIPTS)


def mounts_root(home: Path) -> Path:
    """Where the data of runs is mounted, a folder for each part of an attempt."""
    return _place(home, MOUNTS)


def script_folders(home: Path) -> tuple[Path, Path]:
    """Where folders of scripts may lie: attempts of 0.1.0 and earlier had theirs beside the plan."""
    return scripts_root(home), home / "attempts"


def _place(home: Path, name: str) -> Path:
    """The link's target itself: a process of another user could not pass through the home."""
    try:
        return Path(os.readlink(home / name))
    except OSError:  # a folder, or nothing yet
        return home / name
