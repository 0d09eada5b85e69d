"""Bringing file contents to the service: by path where it shares our files, else many small ones in a body."""

import os

from runyard_sdk.errors import InvalidArgument

_SMALL = 1 << 20
_PACK_BYTES = 8 << 20


def send_files(client, paths):
    """`[[sha256, size], ...]` of the files, in order, once the service holds their contents."""
    paths = [os.path.abspath(path) for path in paths]
    if not paths:
        return []
    adopted = _adopted(client, paths)
    if adopted is not None:
        return adopted
    entries = [hashed(path) for path in paths]
    missing = set(client.post_again("/blobs/missing", {"sha256": sorted({e[0] for e in entries})})["missing"])
    send_missing(client, {entry[0]: path for entry, path in zip(entries, paths) if entry[0] in missing})
    return entries


def send_missing(client, path_by_hash):
    """Send these contents whatever the service has: `{sha256: path}`. Repeats safely."""
    if not path_by_hash:
        return
    if _adopted(client, sorted(set(path_by_hash.values()))) is not None:
        return
    pack, size = [], 0
    for sha256, path in sorted(path_by_hash.items()):
        length = os.path.getsize(path)
        if length > _SMALL:
            client.upload("/blobs/" + sha256, path)
            continue
        with open(path, "rb") as source:
            content = source.read()
        pack.append("{} {}\n".format(sha256, len(content)).encode("ascii") + content)
        size += len(content)
        if size > _PACK_BYTES:
            client.post_bytes("/blobs/pack", b"".join(pack))
            pack, size = [], 0
    if pack:
        client.post_bytes("/blobs/pack", b"".join(pack))


def _adopted(client, paths):
    """`[[sha256, size], ...]` of files that the service took by their paths; None where their bytes must be sent: it
    does not see them, or takes none from there for a script."""
    if not client.shares_files:
        return None
    try:
        return client.post_again("/blobs/adopt", {"paths": paths})["entries"]
    except InvalidArgument:
        if "RUNYARD_ATTEMPT" not in os.environ:
            raise
        return None


def hashed(path):
    """`[sha256, size]` of a file's content."""
    import hashlib

    digest, size = hashlib.sha256(), 0
    with open(path, "rb") as source:
        while True:
            block = source.read(1 << 20)
            if not block:
                return [digest.hexdigest(), size]
            digest.update(block)
            size += len(block)
