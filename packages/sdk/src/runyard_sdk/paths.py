"""Where files that the service names may be written on this machine."""

import os
import re

from runyard_sdk.errors import InvalidArgument

_DRIVE = re.compile("[A-Za-z]:")


def inside(folder, name):
    """The path of a file below `folder`, by a name with slashes. InvalidArgument for one that could leave it on any
    system, with '..', a drive letter or a backslash for a slash."""
    parts = re.split(r"[/\\]", name)
    if not name or name[0] in "/\\" or _DRIVE.match(name) or ".." in parts or "\0" in name:
        raise InvalidArgument(
            "The service names a file %s, which leaves its folder %r." % (ascii(name)[:200], str(folder)),
            "Rename the file, or read it by its name with Run.download_file(name, output_file_path).")
    return os.path.join(str(folder), *name.split("/"))
