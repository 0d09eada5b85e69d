import os
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path, PurePosixPath

from runyard.client import ServiceClient, quoted, retry_while_unavailable
from runyard.core.errors import BlobDamaged, InvalidArgument
from runyard.core.ports.blobs import BlobStore
from runyard.core.records.files import FileEntry

_CONNECTIONS = 8
_SMALL_BYTES = 1 << 20


def place_files(
    entries: Sequence[FileEntry],
    work: Path,
    blobs: BlobStore | None,
    connect: Callable[[], ServiceClient],
    *,
    copy: Callable[[Path, Path], object] = shutil.copyfile,
) -> None:
    """Copy files into the run's folder, from blobs on this machine's disk or else over HTTP, several at once. Safe to
    repeat. Raises RunyardError.

    They are copies, never links: a script may change its own files.
    """
    targets = [(entry, work / _inside(entry.path)) for entry in entries]
    for folder in {target.parent for _, target in targets}:
        folder.mkdir(parents=True, exist_ok=True)
    missing = []
    for entry, target in targets:
        if blobs is None or blobs.local_path(entry.sha256) is None:
            missing.append((entry, target))
            continue
        copy(_verified(blobs, entry), target)
        os.chmod(target, entry.mode | 0o600)
    if missing:
        _fetch_all(missing, connect)


def _verified(blobs: BlobStore, entry: FileEntry) -> Path:
    try:
        return blobs.verified_path(entry.sha256, size=entry.size, always=True)
    except BlobDamaged as error:
        raise BlobDamaged(f"The file {entry.path!r} is damaged on the service's disk.", hint=error.hint) from error


def _fetch_all(missing: Sequence[tuple[FileEntry, Path]], connect: Callable[[], ServiceClient]) -> None:
    if len(missing) <= _CONNECTIONS:
        _fetch(missing, connect)  # threads would cost more
        return
    shares = [missing[start::_CONNECTIONS] for start in range(_CONNECTIONS)]
    with ThreadPoolExecutor(max_workers=len(shares)) as at_once:
        for done in [at_once.submit(_fetch, share, connect) for share in shares]:
            done.result()


def _fetch(share: Sequence[tuple[FileEntry, Path]], connect: Callable[[], ServiceClient]) -> None:
    with closing(connect()) as client:
        for entry, target in share:
            address = f"/blobs/{quoted(entry.sha256)}"
            if entry.size > _SMALL_BYTES:
                retry_while_unavailable(partial(client.download, address, target))
            else:
                target.write_bytes(retry_while_unavailable(partial(client.read, address)))
            os.chmod(target, entry.mode | 0o600)


def _inside(path: str) -> PurePosixPath:
    parsed = PurePosixPath(path)
    if not path or parsed.is_absolute() or ".." in parsed.parts or "\0" in path:
        raise InvalidArgument(f"The snapshot holds {path!r}, which does not lie inside the run's folder.")
    return parsed
