import fcntl
import os
import re
from pathlib import Path

from runyard.node.fence import guard_words, parse_guard
from runyard.node.processes import ProcessId

_ODD = re.compile(r"[^A-Za-z0-9.\-]")
_GUARD = "guard"


def nodes_folder() -> Path:
    """Folder of the node homes on this machine: RUNYARD_NODE_HOME, else ~/.runyard/nodes."""
    return Path(os.environ.get("RUNYARD_NODE_HOME") or "~/.runyard/nodes").expanduser().absolute()


def claim_home(root: Path, service: str, address: str, guard: ProcessId) -> Path:
    """Claim a home folder for the node whose life is that of the process `guard`.

    Every call returns the same. The next node with the same address gets the home of an ended node, with its caches.
    Two living nodes of one machine never share a home.
    """
    folder = root / _ODD.sub("_", service)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = os.open(folder / ".lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _find(folder, _ODD.sub("_", address), guard)
    finally:
        os.close(lock)


def _find(folder: Path, name: str, guard: ProcessId) -> Path:
    number, free = 1, None
    while (home := folder / f"{name}-{number}").is_dir():
        holder = _holder(home)
        if holder == guard:
            return home
        if free is None and (holder is None or not holder.is_alive()):
            free = home
        number += 1
    chosen = free or home
    chosen.mkdir(mode=0o700, exist_ok=True)
    beside = chosen / f".{_GUARD}.{os.getpid()}"
    beside.write_text(guard_words(guard), encoding="ascii")
    beside.rename(chosen / _GUARD)
    return chosen


def _holder(home: Path) -> ProcessId | None:
    try:
        return parse_guard((home / _GUARD).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
