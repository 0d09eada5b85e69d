import os
import re

from azureml.exceptions import UserErrorException
from runyard_sdk.errors import InvalidArgument

_DRIVE = re.compile("[A-Za-z]:")


def below_folder(folder, name):
    """Local path below `folder` for a file name of the service. Raises UserErrorException where it would leave the
    folder."""
    try:
        return inside(folder, name)
    except InvalidArgument as error:
        raise UserErrorException(str(error))


def inside(folder, name):
    """Path below `folder` for a name with slashes. Raises InvalidArgument for a name that could leave it on any system:
    '..', a drive letter or a backslash."""
    parts = re.split(r"[/\\]", name)
    if not name or name[0] in "/\\" or _DRIVE.match(name) or ".." in parts or "\0" in name:
        raise InvalidArgument(
            "The service names a file %s, which leaves its folder %r." % (ascii(name)[:200], str(folder)),
            "Rename the file, or read it by its name with Run.download_file(name, output_file_path).")
    return os.path.join(str(folder), *name.split("/"))
