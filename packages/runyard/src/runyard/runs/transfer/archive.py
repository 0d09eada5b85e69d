"""Archive of exported runs: a plain tar, written and read as a stream.

    runyard-export.json      format, workspace, ids of the runs
    blobs/SHA256             every file that the runs and models name
    runs/N/logs/K            logs of run N
    runs/N/metrics.jsonl     its metrics, with all points
    runs/N/run.json          its rows
    models.json              models registered from the runs
    end.json                 the hash of all before it

Only these names occur: users' names and paths are inside the members. The reader accepts regular members with these
names and nothing else, so an archive can neither write outside its folder nor expand beyond its own size.
"""

import hashlib
import json
import re
import tarfile
from collections.abc import Iterable, Iterator
from typing import Any

from runyard.core.errors import InvalidArgument

FORMAT = 1
HEAD, MODELS, END = "runyard-export.json", "models.json", "end.json"
_BLOCK = 512
_PIECE_BYTES = 1 << 20
_LARGEST_JSON = 256 << 20
_NAME = re.compile(
    r"runyard-export\.json|blobs/[0-9a-f]{64}|runs/[0-9]{1,7}/(?:run\.json|metrics\.jsonl|logs/[0-9]{1,7})"
    r"|models\.json|end\.json"
)


class ArchiveWriter:
    """Writes an archive member by member, as an iterator of bytes."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def member(self, name: str, size: int, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Bytes of one member. Raises ValueError if the pieces do not add up to `size`."""
        info = tarfile.TarInfo(name)
        info.size, info.mode = size, 0o600
        written = 0
        yield self._counted(info.tobuf(tarfile.GNU_FORMAT))
        for piece in pieces:
            written += len(piece)
            yield self._counted(piece)
        if written != size:
            raise ValueError(f"{name} has {written} bytes, not {size}.")
        yield self._counted(bytes(-size % _BLOCK))

    def json(self, name: str, value: Any) -> Iterator[bytes]:
        data = json.dumps(value).encode()
        yield from self.member(name, len(data), [data])

    def end(self) -> Iterator[bytes]:
        yield from self.json(END, {"sha256": self._digest.hexdigest()})
        yield bytes(2 * _BLOCK)

    def _counted(self, data: bytes) -> bytes:
        self._digest.update(data)
        return data


class ArchiveMember:
    """One file of an archive that is being read; the reader skips what is left unread."""

    def __init__(self, name: str, size: int, pieces: Iterator[bytes]) -> None:
        self.name, self.size, self.pieces = name, size, pieces

    def json(self) -> Any:
        if self.size > _LARGEST_JSON:
            raise InvalidArgument(f"{self.name} of the archive has {self.size} bytes, too many.")
        return parsed_json(self.name, b"".join(self.pieces))


class ArchiveReader:
    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._source, self._rest = iter(pieces), b""
        self._digest = hashlib.sha256()

    def members(self) -> Iterator[ArchiveMember]:
        """Yield all members, then check the hash at the end. Raises InvalidArgument for a damaged archive."""
        while True:
            before = self._digest.hexdigest()
            name, size = _named(self._exactly(_BLOCK))
            content = self._content(size)
            if name == END:
                _check_end(b"".join(content) if size < _PIECE_BYTES else b"", before)
                for _ in self._source:
                    pass  # the HTTP answer can be sent only after the whole body was read
                return
            yield ArchiveMember(name, size, content)
            for _ in content:
                pass
            self._exactly(-size % _BLOCK)

    def _content(self, size: int) -> Iterator[bytes]:
        while size:
            piece = self._exactly(min(size, _PIECE_BYTES))
            size -= len(piece)
            yield piece

    def _exactly(self, size: int) -> bytes:
        waiting, have = [self._rest], len(self._rest)
        while have < size:
            piece = next(self._source, b"")
            if not piece:
                raise InvalidArgument("The archive ends too early.", hint="Export the runs again.")
            waiting.append(piece)
            have += len(piece)
        whole = b"".join(waiting)
        self._rest = whole[size:]
        self._digest.update(whole[:size])
        return whole[:size]


def parsed_json(name: str, data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"{name} of the archive is no JSON.") from error


def _named(header: bytes) -> tuple[str, int]:
    try:
        info = tarfile.TarInfo.frombuf(header, "ascii", "strict")
    except (tarfile.HeaderError, UnicodeError, ValueError) as error:
        raise InvalidArgument(
            "This is no archive of runs, or it was cut or altered.", hint="`runyard runs export` makes one."
        ) from error
    if info.type != tarfile.REGTYPE or info.linkname or info.size < 0 or not _NAME.fullmatch(info.name):
        raise InvalidArgument(f"The archive holds {info.name[:200]!r}, which an archive of runs does not.")
    return info.name, info.size


def _check_end(data: bytes, found: str) -> None:
    end = parsed_json(END, data)
    if not isinstance(end, dict) or end.get("sha256") != found:
        raise InvalidArgument("The archive was altered: its hash is not the one it ends with.")
