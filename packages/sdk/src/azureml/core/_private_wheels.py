"""Wheels that no package index has."""
import os


def kept_wheel(path):
    """The address of a copy of the wheel, told from others by its content: what becomes of the file itself, or comes in
    its place, changes nothing for environments that name the copy."""
    from runyard_sdk.blobs import hashed
    from runyard_sdk.home import ensured_home
    sha256 = hashed(path)[0]
    kept = os.path.join(ensured_home(), "wheels", sha256, os.path.basename(path))
    if not os.path.isfile(kept):
        _copy(path, kept)
    from pathlib import Path
    return Path(kept).as_uri()


def _copy(path, kept):
    import shutil
    os.makedirs(os.path.dirname(kept), mode=0o700, exist_ok=True)
    beside = "%s.%d" % (kept, os.getpid())
    shutil.copyfile(path, beside)
    os.replace(beside, kept)
