"""Download of one file: completely or not at all, resumed after a broken connection."""

import os

from runyard_sdk.errors import ServiceUnavailable, SourceChanged, StorageFull

_TRIES_WITHOUT_PROGRESS = 5


def fetch(transport, address, target, size=None, version="", on_bytes=None, headers=None):
    """Download to a temporary file next to `target`, then rename; creates folders.

    `version` identifies the content (for a dataset: the etag) of a file with known size. With it a broken connection is
    resumed, and a partial file is kept for the next call when all attempts fail. `on_bytes` is called with the number
    of bytes received, each time. `headers` go with every request.
    """
    os.makedirs(os.path.dirname(os.path.abspath(target)), exist_ok=True)
    part = _Part(target, version if size else "")
    try:
        if size and part.size > size:
            part.empty()
        _fill(transport, address, part, size, on_bytes or _quiet, headers or {})
        part.become(target)
    finally:
        part.close()


def _fill(transport, address, part, size, on_bytes, headers):
    from http.client import HTTPException

    tries, furthest = _TRIES_WITHOUT_PROGRESS, part.size
    on_bytes(part.size)
    while part.size == 0 or part.size != size:
        try:
            _receive(transport, address, part, on_bytes, headers)
            break
        except (OSError, HTTPException) as error:
            tries = _TRIES_WITHOUT_PROGRESS if part.size > furthest else tries - 1
            furthest = max(furthest, part.size)
            if not tries:
                raise transport.translate(ServiceUnavailable(
                    "The download of {} broke off after {} bytes: {}.".format(part.target, part.size, error),
                    hint="Call it again; it goes on from there." if part.is_kept else "Call it again."))
    if size not in (None, part.size):
        part.is_kept = False
        raise transport.translate(SourceChanged(
            "{} has {} bytes where {} were promised.".format(part.target, part.size, size),
            hint="It changed since it was listed: call it again."))


def _receive(transport, address, part, on_bytes, headers):
    """Request the missing part, or all where ranges are not possible, and write it."""
    if part.size and not part.is_kept:
        on_bytes(-part.size)
        part.empty()
    asked = {"Range": "bytes={}-".format(part.size)} if part.size else {}
    with transport.stream(address, dict(headers, **asked)) as answer:
        if asked and answer.status != 206:
            on_bytes(-part.size)
            part.empty()
        _copy(answer, part, on_bytes)


def _copy(answer, part, on_bytes):
    while True:
        block = answer.read(1 << 20)
        if not block:
            break
        part.write(block)
        on_bytes(len(block))
    if answer.length:
        raise OSError("{} bytes are missing".format(answer.length))


class _Part:
    """Partial file next to the target. With a known version it has a stable name that the next call finds."""

    def __init__(self, target, version):
        self.target = target
        self.is_kept = bool(version) and self._open_shared(version)
        if not self.is_kept:
            self._path = "{}.{}.part".format(target, os.urandom(4).hex())
            self._file = open(self._path, "wb", buffering=0)
        self.size = os.fstat(self._file.fileno()).st_size

    def write(self, block):
        rest = memoryview(block)
        try:
            while rest:
                rest = rest[self._file.write(rest):]
        except OSError as error:
            self.empty()
            self.is_kept = False
            raise StorageFull("{!r} could not be written: {}.".format(self.target, error.strerror),
                              hint="Make room there, or choose another folder.")
        self.size += len(block)

    def empty(self):
        self._file.seek(0)
        self._file.truncate()
        self.size = 0

    def become(self, target):
        os.replace(self._path, target)
        self._path = None

    def close(self):
        self._file.close()
        if self._path and not self.is_kept:
            os.remove(self._path)

    def _open_shared(self, version):
        """Lock the partial file of this version; False if another process has it."""
        import hashlib

        try:
            import fcntl
        except ImportError:
            return False
        self._path = "{}.{}.part".format(self.target, hashlib.sha256(version.encode("utf-8")).hexdigest()[:12])
        self._file = open(self._path, "ab", buffering=0)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(self._file.fileno()).st_ino == os.stat(self._path).st_ino:
                return True
        except OSError:
            pass
        self._file.close()
        return False


def _quiet(count):
    """Callback that shows nothing."""
