"""Detection of a copied home.

`home.json` records path, device and inode of the home when it was last served. A copy holds the same file in another
folder while the original still exists. The copy must not touch processes, sockets and run folders of the original.
"""

import json
import os
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from runyard.core.durable_files import replace_file
from runyard.core.run_folders import RUN_FOLDERS, SCRIPTS

RECORD = "home.json"
_PROCESS_FILES = ("service.json", "agent.json", "agent.sock", "gateway.json", "gateway.sock", "start-error.json")
_DATABASE = "runyard.db"
_ATTEMPT_FOLDERS = ("attempts", SCRIPTS, "containers")


def find_original(home: Path) -> Path | None:
    """The home that this one was copied from. None for a new or moved home, also where it moved to another disk."""
    try:
        known = json.loads((home / RECORD).read_bytes())
        original, mark = Path(known["path"]), (int(known["device"]), int(known["inode"]))
        if os.path.realpath(home) == str(original) or _identity(home) == mark:
            return None
        return original if _identity(original) == mark else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def record_location(home: Path) -> None:
    """Record where the home lies now; it no longer counts as a copy."""
    device, inode = _identity(home)
    record = {"path": os.path.realpath(home), "device": device, "inode": inode}
    replace_file(home / RECORD, json.dumps(record).encode())


def detach_from_original(home: Path) -> None:
    """Remove from a copy what belongs to processes of the original. Safe to repeat."""
    for name in RUN_FOLDERS:
        if (home / name).is_symlink():
            (home / name).unlink()
    for name in _PROCESS_FILES:
        (home / name).unlink(missing_ok=True)
    for name in _ATTEMPT_FOLDERS:
        shutil.rmtree(home / name, ignore_errors=True)
    # The copied lease names the original's service, which writes only to its own database.
    if (home / _DATABASE).exists():
        with suppress(sqlite3.Error), closing(sqlite3.connect(home / _DATABASE)) as database, database:
            database.execute("UPDATE service_lease SET holder = NULL, expires_at = NULL")
    for state in (home / "services").glob("*/state.json"):
        with suppress(OSError, ValueError, TypeError):
            replace_file(state, json.dumps({**json.loads(state.read_bytes()), "port": 0}).encode())


def _identity(folder: Path) -> tuple[int, int]:
    found = folder.stat()
    return found.st_dev, found.st_ino
