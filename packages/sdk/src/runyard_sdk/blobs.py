"""Bringing file contents to the service: by path where it shares our files, else many small ones in a body.

Files may change meanwhile. What the service holds at the end is what was hashed: each function says which content that
is, and the caller names that one.
"""

import os

from runyard_sdk.errors import InvalidArgument

_SMALL = 1 << 20
_BLOCK = 1 << 20
_PACK_BYTES = 8 << 20


def send_files(client, paths):
    """`[[sha256, size], ...]` of the files, in order, once the service holds these contents.

    FileNotFoundError or NotFound, both naming the file, for one that is gone.
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
    """`[[name, sha256, size, mode], ...]` of `[(name, path), ...]`, once the service holds these contents.

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
    """The entries `[name, sha256, size, ...]` as they are once the service holds the contents named in `missing`.

    `place_of(name)` is where a file lies. One that changed since it was hashed has its new hash and size.
    Raises as `send_files` does.
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


def _sent(client, files, missing):
    """Send `[(path, [sha256, size]), ...]`, those that are in `missing`; `[[sha256, size], ...]` as they were sent."""
    pack, there, sent = _Pack(client), set(), []
    for path, content in files:
        if content[0] in missing and content[0] not in there:
            content = (_send_large if content[1] > _SMALL else pack.add)(client, path, content)
            there.add(content[0])
        sent.append(list(content))
    pack.send()
    return sent


def _send_large(client, path, content):
    """Send the hashed part of a file that may have grown; a copy of one that was changed otherwise."""
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
    """Small contents that travel in one body, named by the hash of what was read."""

    def __init__(self, client):
        self._client, self._parts, self._size = client, [], 0

    def add(self, client, path, content):
        import hashlib

        with open(path, "rb") as source:
            data = source.read(_PACK_BYTES + 1)
            if len(data) > _PACK_BYTES:
                return _send_copy(client, source)  # it was small when it was hashed
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
    """A file has fewer bytes left than were announced: somebody cut it while it was sent."""


class Exactly(object):
    """The next `size` bytes of an open file, however it grows. BodyTooShort where it has fewer."""

    def __init__(self, content, size, told=None):
        self._content, self._size, self._told = content, size, told or _quiet
        self._start, self._place = content.tell(), 0

    def read(self, count=-1):
        left = self._size - self._place
        block = self._content.read(left if count < 0 else min(count, left))
        if left and count and not block:
            raise BodyTooShort()
        self._place += len(block)
        self._told(len(block))
        return block

    def seek(self, place):
        self._told(place - self._place)
        self._place = place
        self._content.seek(self._start + place)


def _quiet(count):
    """For callers that show nothing."""
