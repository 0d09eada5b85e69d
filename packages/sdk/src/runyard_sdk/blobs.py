"""Upload of file contents to the service: by path where it shares our files, else many small files in one body.

Files may change during the upload. The service stores what was hashed; each function returns which content that is.
"""

import os

from runyard_sdk.errors import InvalidArgument

_SMALL = 1 << 20
_BLOCK = 1 << 20
_PACK_BYTES = 8 << 20


def send_files(client, paths):
    """Upload the files; return `[[sha256, size], ...]` in order.

    Raises FileNotFoundError or NotFound, naming the file, for one that is gone.
    """
    paths = [os.path.abspath(path) for path in paths]
    if not paths:
        return []
    adopted = _adopted(client, paths)
    if adopted is not None:
        return adopted
    hashes = [hashed(path) for path in paths]
    missing = set(client.post_again("/blobs/missing", {"sha256": sorted({one[0] for one in hashes})})["missing"])
    return _sent(client, [(path, one) for path, one in zip(paths, hashes)], missing)


def send_entries(client, named):
    """Upload `[(name, path), ...]`; return `[[name, sha256, size, mode], ...]`.

    Raises InvalidArgument naming a file that is gone.
    """
    try:
        modes = [os.stat(path).st_mode & 0o777 for _, path in named]
        contents = send_files(client, [path for _, path in named])
    except FileNotFoundError as error:
        raise client.transport.translate(InvalidArgument(
            "The file {!r} is gone: it was removed while it was sent.".format(error.filename),
            hint="Call it again once nothing removes its files."))
    return [[name, content[0], content[1], mode] for (name, _), content, mode in zip(named, contents, modes)]


def send_missing(client, entries, place_of, missing):
    """Upload the contents named in `missing`; return the entries `[name, sha256, size, ...]` as stored.

    `place_of(name)` is the local path. A file that changed since it was hashed gets its new hash and size. Raises as
    `send_files` does.
    """
    entries = [list(entry) for entry in entries]
    chosen = [entry for entry in entries if entry[1] in missing]
    paths = [os.path.abspath(place_of(entry[0])) for entry in chosen]
    if not chosen:
        return entries
    contents = _adopted(client, paths)
    if contents is None:
        contents = _sent(client, [(path, entry[1:3]) for path, entry in zip(paths, chosen)], set(missing))
    for entry, content in zip(chosen, contents):
        entry[1:3] = content
    return entries


def hashed(path):
    """`[sha256, size]` of a file's content."""
    import hashlib

    digest, size = hashlib.sha256(), 0
    with open(path, "rb") as source:
        while True:
            block = source.read(_BLOCK)
            if not block:
                return [digest.hexdigest(), size]
            digest.update(block)
            size += len(block)


def _adopted(client, paths):
    """`[[sha256, size], ...]` of files that the service copied by path; None where bytes must be sent: it cannot see
    them, or accepts no paths from a script."""
    if not client.shares_files:
        return None
    try:
        return client.post_again("/blobs/adopt", {"paths": paths})["entries"]
    except InvalidArgument:
        if "RUNYARD_ATTEMPT" not in os.environ:
            raise
        return None


def _sent(client, files, missing):
    """Send those of `[(path, [sha256, size]), ...]` that are in `missing`; return `[[sha256, size], ...]` as sent."""
    pack, there, sent = _Pack(client), set(), []
    for path, content in files:
        if content[0] in missing and content[0] not in there:
            content = (_send_large if content[1] > _SMALL else pack.add)(client, path, content)
            there.add(content[0])
        sent.append(list(content))
    pack.send()
    return sent


def _send_large(client, path, content):
    """Send the hashed part of a file that may have grown; if it changed otherwise, send a copy."""
    with open(path, "rb") as source:
        try:
            client.upload_open("/blobs/" + content[0], source, content[1])
            return content
        except (InvalidArgument, BodyTooShort):
            return _send_copy(client, source)


def _send_copy(client, source):
    import hashlib
    import tempfile

    source.seek(0)
    left = os.fstat(source.fileno()).st_size
    digest, size = hashlib.sha256(), 0
    with tempfile.TemporaryFile() as copy:
        while left:
            block = source.read(min(left, _BLOCK))
            if not block:
                break
            copy.write(block)
            digest.update(block)
            left, size = left - len(block), size + len(block)
        copy.seek(0)
        client.upload_open("/blobs/" + digest.hexdigest(), copy, size)
    return [digest.hexdigest(), size]


class _Pack:
    """Small contents sent in one body, named by the hash of what was read."""

    def __init__(self, client):
        self._client, self._parts, self._size = client, [], 0

    def add(self, client, path, content):
        import hashlib

        with open(path, "rb") as source:
            data = source.read(_PACK_BYTES + 1)
            if len(data) > _PACK_BYTES:
                return _send_copy(client, source)  # it was small when hashed
        found = [hashlib.sha256(data).hexdigest(), len(data)]
        self._parts.append("{} {}\n".format(*found).encode("ascii") + data)
        self._size += len(data)
        if self._size > _PACK_BYTES:
            self.send()
        return found

    def send(self):
        if self._parts:
            self._client.post_bytes("/blobs/pack", b"".join(self._parts))
        self._parts, self._size = [], 0


class BodyTooShort(Exception):
    """A file became shorter while it was sent."""


class Exactly(object):
    """Reader of the next `size` bytes of an open file, however it grows. Raises BodyTooShort if it has fewer."""

    def __init__(self, content, size, on_bytes=None):
        self._content, self._size, self._on_bytes = content, size, on_bytes or _quiet
        self._start, self._place = content.tell(), 0

    def read(self, count=-1):
        left = self._size - self._place
        block = self._content.read(left if count < 0 else min(count, left))
        if left and count and not block:
            raise BodyTooShort()
        self._place += len(block)
        self._on_bytes(len(block))
        return block

    def seek(self, place):
        self._on_bytes(place - self._place)
        self._place = place
        self._content.seek(self._start + place)


def _quiet(count):
    """Callback that shows nothing."""
