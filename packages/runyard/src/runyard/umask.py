"""The umask of this process, and that of the user who started it.

Service, agent and gateway write with 077. Scripts, workers and files that are handed to users keep the umask that those
were started with: each passes it on to what it starts.
"""

import os
import re
import stat
from pathlib import Path

PRIVATE = 0o077
_given: list[int] = []


def keep_files_private() -> None:
    """Write what others cannot read, from now on. Quiet when called again."""
    before = os.umask(PRIVATE)
    if not _given:
        _given.append(before)


def give_to_users(descriptor: int) -> None:
    """Have a new file or folder the mode that the user's umask gives; it may lie where users share files."""
    mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
    # Other bits mean that our umask did not count: the folder has a default ACL, or this process no umask of its own.
    wanted = mode | ((mode & 0o700) * 0o111 // 0o100 & ~users_umask())
    if not mode & PRIVATE and wanted != mode:
        os.fchmod(descriptor, wanted)


def users_umask() -> int:
    """The umask that this process was started with."""
    if _given:
        return _given[0]
    found = re.search(r"^Umask:\s*([0-7]+)$", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(found[1], 8) if found else 0o022
