import os
import shutil
from pathlib import Path

from runyard.errors import InvalidArgument

LIMIT_SETTING = "RUNYARD_DATA_CACHE_BYTES"
_MOST_BYTES = 20 * 1024**3


def cache_limit(folder: Path) -> int:
    """Size limit of the data cache in bytes: RUNYARD_DATA_CACHE_BYTES, else the lesser of 20 GB and a quarter of the
    disk. Raises InvalidArgument."""
    setting = os.environ.get(LIMIT_SETTING, "")
    if setting:
        if not (setting.isascii() and setting.isdigit()):
            raise InvalidArgument(f"{LIMIT_SETTING} is {setting!r}.", hint="Set it to a number of bytes.")
        return int(setting)
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return min(_MOST_BYTES, shutil.disk_usage(folder).total // 4)
