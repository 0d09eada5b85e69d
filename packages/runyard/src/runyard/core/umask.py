"""The umask of our processes, and that of the user who started them.

Service, agent and gateway use 077. Scripts, workers and files for users get the umask that these were started with;
each process passes it on to those it starts.
"""

import os
import re
import stat
from pathlib import Path

PRIVATE = 0o077
_given: list[int] = []


def keep_files_private() -> None:
    """Set the umask to 077: new files are private. Safe to repeat."""
    before = os.umask(PRIVATE)
    if not _given:
        _given.append(before)


def give_to_users(descriptor: int) -> None:
    """Give a new file or folder the mode of the user's umask, for folders that users share."""
    mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
    # Bits for others mean that our umask had no effect: the folder has a default ACL, or our umask was not set.
    wanted = mode | ((mode & 0o700) * 0o111 // 0o100 & ~users_umask())
    if not mode & PRIVATE and wanted != mode:
        os.fchmod(descriptor, wanted)


def users_umask() -> int:
    """The umask that this process was started with."""
    if _given:
        return _given[0]
    found = re.search(r"^Umask:\s*([0-7]+)$", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(found[1], 8) if found else 0o022
