import os
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path, PurePosixPath

from runyard.errors import InvalidArgument
from runyard.model.files import FileEntry
from runyard.node.service_client import ServiceClient, patiently, quoted
from runyard.ports.blobs import BlobStore


def place_code(entries: Sequence[FileEntry], work: Path, blobs: BlobStore, client: ServiceClient) -> None:
    """Copy a snapshot into the run's folder: from this machine's disk where it lies there, else over the wire.

    They are copies, never links: a script may change its own files. Placing twice is harmless.
    """
    for entry in entries:
        target = work / _inside(entry.path)
        target.parent.mkdir(parents=True, exist_ok=True)
        source = blobs.local_path(entry.sha256)
        if source is not None:
            shutil.copyfile(source, target)
        else:
            patiently(partial(client.download, f"/blobs/{quoted(entry.sha256)}", target))
        os.chmod(target, entry.mode | 0o600)


def _inside(path: str) -> PurePosixPath:
    parsed = PurePosixPath(path)
    if not path or parsed.is_absolute() or ".." in parsed.parts or "\0" in path:
        raise InvalidArgument(f"The snapshot holds {path!r}, which does not lie inside the run's folder.")
    return parsed
