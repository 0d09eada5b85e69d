import errno
import os
import stat
import time
from collections.abc import Mapping, Sequence
from typing import Protocol

from runyard.core.errors import RunyardError
from runyard.core.records.data import SourceFile
from runyard.data.fuse import protocol
from runyard.data.fuse.failures import RecentFailures, errno_of, os_error
from runyard.data.fuse.file_index import MAX_NAME_BYTES, FileIndex, IndexFolder
from runyard.data.fuse.log import MountLog, ReadProgress
from runyard.data.fuse.protocol import FuseRequest, Op
from runyard.data.fuse.server import Handler, ListedName, Reply, packed_listing, pass_leadership

_QUICK_BYTES = 128 * 1024
"""A longer read takes long enough to copy that another worker should receive meanwhile."""
_KEPT_SECONDS = 30 * 86400
_FOLDER_MODE = stat.S_IFDIR | 0o555
_FILE_MODE = stat.S_IFREG | 0o444
_BLOCK_BYTES = 4096


class FileReader(Protocol):
    """Methods of transfers.Reader that the trees use."""

    def read(self, file: SourceFile, start: int, length: int) -> Sequence[memoryview]: ...

    def size(self, file: SourceFile) -> int: ...


class ReadOnlyTree:
    """FUSE handlers for the files of a dataset. They never change, so the kernel may cache everything."""

    is_writable = False

    def __init__(self, index: FileIndex, reader: FileReader, log: MountLog, progress: ReadProgress) -> None:
        self._index, self._nodes = index, index.nodes
        self._reader, self._log, self._progress = reader, log, progress
        self._owner = (os.geteuid(), os.getegid())
        self._made_ns = time.time_ns()
        self._sizes: dict[int, int] = {}
        self._listed: dict[int, list[ListedName]] = {}
        self._failures = RecentFailures()
        self._no_such_name = protocol.entry(
            0, bytes(protocol.ATTR.size), name_seconds=_KEPT_SECONDS, attribute_seconds=0
        )

    def handlers(self) -> Mapping[int, Handler]:
        return {
            Op.LOOKUP: self._lookup,
            Op.GETATTR: self._getattr,
            Op.READ: self._read,
            Op.READDIR: self._readdir,
            Op.READDIRPLUS: self._readdirplus,
            Op.STATFS: self._statfs,
            Op.FORGET: _forget,
            Op.BATCH_FORGET: _forget,
        }

    def _lookup(self, request: FuseRequest) -> Reply:
        node = self._folder(request.node).children.get(request.names()[0])
        return (self._no_such_name if node is None else self._entry(node),)

    def _getattr(self, request: FuseRequest) -> Reply:
        return (protocol.ATTR_OUT_HEAD.pack(_KEPT_SECONDS, 0, 0), self._attributes(request.node))

    def _read(self, request: FuseRequest) -> Reply:
        _, start, length = protocol.READ_IN.unpack_from(request.body)
        node = request.node
        file = self._nodes[node]
        if isinstance(file, IndexFolder):
            raise os_error(errno.EISDIR)
        self._failures.raise_recent(node)
        if length > _QUICK_BYTES:
            pass_leadership()
        try:
            pieces = self._reader.read(file, start, length)
        except (RunyardError, OSError) as error:
            raise self._failed(node, file, error) from error
        self._progress.add(node, sum(map(len, pieces)), file.size)
        return pieces

    def _readdir(self, request: FuseRequest) -> Reply:
        return packed_listing(request, self._names(request.node), None)

    def _readdirplus(self, request: FuseRequest) -> Reply:
        return packed_listing(request, self._names(request.node), self._entry_if_known)

    def _statfs(self, _: FuseRequest) -> Reply:
        blocks = -(-self._index.bytes // _BLOCK_BYTES)
        files = len(self._nodes) - 1
        return (protocol.STATFS_OUT.pack(blocks, 0, 0, files, 0, _BLOCK_BYTES, MAX_NAME_BYTES, _BLOCK_BYTES, 0),)

    def _folder(self, node: int) -> IndexFolder:
        folder = self._nodes[node]
        if isinstance(folder, IndexFolder):
            return folder
        raise os_error(errno.ENOTDIR)

    def _names(self, node: int) -> list[ListedName]:
        listed = self._listed.get(node)
        if listed is None:
            folder = self._folder(node)
            listed = [(b".", node, _FOLDER_MODE), (b"..", folder.parent, _FOLDER_MODE)]
            listed += [(name, child, self._mode(child)) for name, child in folder.children.items()]
            self._listed[node] = listed
        return listed

    def _mode(self, node: int) -> int:
        return _FOLDER_MODE if isinstance(self._nodes[node], IndexFolder) else _FILE_MODE

    def _entry(self, node: int) -> bytes:
        return protocol.entry(node, self._attributes(node), name_seconds=_KEPT_SECONDS, attribute_seconds=_KEPT_SECONDS)

    def _entry_if_known(self, node: int) -> bytes:
        """Entry with attributes, but without them if the size is unknown: a listing must not fetch whole files."""
        file = self._nodes[node]
        is_known = isinstance(file, IndexFolder) or file.size is not None or node in self._sizes
        return self._entry(node) if is_known else protocol.NO_ENTRY

    def _attributes(self, node: int) -> bytes:
        there = self._nodes[node]
        if isinstance(there, IndexFolder):
            mode, size, links = _FOLDER_MODE, _BLOCK_BYTES, 2 + there.folders
        else:
            mode, size, links = _FILE_MODE, self._size(node, there), 1
        return protocol.attributes(
            node=node, mode=mode, size=size, modified_ns=self._made_ns, owner=self._owner, links=links
        )

    def _size(self, node: int, file: SourceFile) -> int:
        size = file.size if file.size is not None else self._sizes.get(node)
        if size is None:
            self._failures.raise_recent(node)
            pass_leadership()  # it may wait for a store: other requests must not
            try:
                size = self._reader.size(file)
            except (RunyardError, OSError) as error:
                raise self._failed(node, file, error) from error
            self._sizes[node] = size
        return size

    def _failed(self, node: int, file: SourceFile, error: RunyardError | OSError) -> OSError:
        number = errno_of(error)
        self._failures.note(node, number)
        self._log.problem(f"Reading {file.path!r} failed: {error}")
        return os_error(number)


def _forget(_: FuseRequest) -> Reply:
    return None
