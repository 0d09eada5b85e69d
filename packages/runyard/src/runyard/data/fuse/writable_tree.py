import contextlib
import errno
import itertools
import os
import stat
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from runyard.core.ports.data import DataStore
from runyard.data.fuse import protocol
from runyard.data.fuse.caller_processes import is_thread_of, process_of
from runyard.data.fuse.failures import logged_errors, os_error
from runyard.data.fuse.file_contents import FileContents, rename
from runyard.data.fuse.file_index import MAX_NAME_BYTES
from runyard.data.fuse.log import MountLog, ReadProgress, megabytes
from runyard.data.fuse.mounts import WritableMount
from runyard.data.fuse.protocol import FuseRequest, Op, OpenFlag, SetattrField
from runyard.data.fuse.read_only_tree import FileReader
from runyard.data.fuse.remote_names import FileNode, FolderNode, Node, RemoteNames, checked_name
from runyard.data.fuse.server import Handler, ListedName, Reply, packed_listing
from runyard.data.fuse.staged_files import StagingFolder

_KEPT_SECONDS = 1
_FOLDER_MODE = stat.S_IFDIR | 0o755
_FINISHING_THREADS = 8
_HANDLE = 1


class WritableTree:
    """FUSE handlers for a folder of a store. A file that a script closed without an error is stored.

    Changes by others appear after a few seconds. Empty folders exist only as long as the mount. Files are replaced
    whole on the store: others never see a partial file.
    """

    is_writable = True

    def __init__(
        self,
        mount: WritableMount,
        store: DataStore,
        reader: FileReader,
        staging: StagingFolder,
        log: MountLog,
        progress: ReadProgress,
    ) -> None:
        self._name, self._staging, self._log, self._progress = mount.name, staging, log, progress
        self._names = RemoteNames(store, mount.prefix, log)
        self._contents = FileContents(mount.store, store, self._names, reader, staging, log)
        self._owner = (os.geteuid(), os.getegid())
        self._is_closed = not store.is_writable
        self._lock = threading.Lock()
        self._listings: dict[int, list[ListedName]] = {}
        self._handles = itertools.count(_HANDLE + 1)
        self._logged_bytes = 0

    def handlers(self) -> Mapping[int, Handler]:
        changing: dict[int, Handler] = {
            Op.SETATTR: self._setattr,
            Op.MKDIR: self._mkdir,
            Op.UNLINK: self._unlink,
            Op.RMDIR: self._rmdir,
            Op.RENAME: self._rename,
            Op.RENAME2: self._rename2,
            Op.WRITE: self._write,
            Op.CREATE: self._create,
        }
        return {
            Op.LOOKUP: self._lookup,
            Op.FORGET: self._forget,
            Op.BATCH_FORGET: self._batch_forget,
            Op.GETATTR: self._getattr,
            Op.OPEN: self._open,
            Op.READ: self._read,
            Op.FLUSH: self._flush,
            Op.FSYNC: self._fsync,
            Op.RELEASE: self._release,
            Op.OPENDIR: self._opendir,
            Op.READDIR: self._readdir,
            Op.RELEASEDIR: self._releasedir,
            Op.STATFS: self._statfs,
            **{op: self._while_open(handler) for op, handler in changing.items()},
            **dict.fromkeys((Op.SYMLINK, Op.LINK, Op.MKNOD), _not_permitted),
        }

    @property
    def written_files(self) -> int:
        return self._contents.written_files

    @property
    def written_bytes(self) -> int:
        return self._contents.written_bytes

    def progress_line(self) -> str:
        """Log line if more was written since the last one, else ""."""
        sent = self._contents.sent_bytes
        if sent == self._logged_bytes:
            return ""
        self._logged_bytes = sent
        return f"{self._name}: {self.written_files} files, {megabytes(sent)} written"

    def finish(self) -> None:
        """Refuse further changes, and store what is not stored yet."""
        self._is_closed = True
        left = [file for file in self._names.table.files() if file.is_dirty]
        with ThreadPoolExecutor(_FINISHING_THREADS) as pool:
            list(pool.map(self._try_to_store, left))

    def lost(self) -> list[str]:
        return [f"{self._name}: {sentence}" for sentence in self._contents.lost()]

    def _try_to_store(self, file: FileNode) -> None:
        with contextlib.suppress(OSError):  # reported by `lost`
            self._contents.store(file)

    def _while_open(self, handler: Handler) -> Handler:
        def handle(request: FuseRequest) -> Reply:
            if self._is_closed:
                raise os_error(errno.EROFS)
            return handler(request)

        return handle

    # Names

    def _lookup(self, request: FuseRequest) -> Reply:
        folder = self._folder(request.node)
        try:
            name = checked_name(request.names()[0])
        except OSError as error:
            raise os_error(errno.ENOENT) from error
        node = self._child(folder, name)
        if node is None:
            raise os_error(errno.ENOENT)
        return (self._entry(node),)

    def _forget(self, request: FuseRequest) -> Reply:
        with self._names.lock:
            self._names.table.forget(request.node, *protocol.FORGET_IN.unpack_from(request.body))
        return None

    def _batch_forget(self, request: FuseRequest) -> Reply:
        count, _ = protocol.BATCH_FORGET_IN.unpack_from(request.body)
        with self._names.lock:
            for at in range(count):
                one = protocol.BATCH_FORGET_IN.size + at * protocol.FORGET_ONE.size
                self._names.table.forget(*protocol.FORGET_ONE.unpack_from(request.body, one))
        return None

    def _mkdir(self, request: FuseRequest) -> Reply:
        name = checked_name(request.names(protocol.MKDIR_IN.size)[0])
        folder = self._folder(request.node)
        if self._child(folder, name) is not None:
            raise os_error(errno.EEXIST)
        made = FolderNode(self._names.table.next_number(), folder, name, time.time_ns(), is_made_here=True)
        self._names.add(made)
        made.listed_at = made.seen_at
        return (self._entry(made),)

    def _unlink(self, request: FuseRequest) -> Reply:
        file = self._child(self._folder(request.node), checked_name(request.names()[0]))
        if file is None:
            raise os_error(errno.ENOENT)
        if isinstance(file, FolderNode):
            raise os_error(errno.EISDIR)
        self._contents.remove(file)
        self._names.remove(file)
        return ()

    def _rmdir(self, request: FuseRequest) -> Reply:
        folder = self._child(self._folder(request.node), checked_name(request.names()[0]))
        if not isinstance(folder, FolderNode):
            raise os_error(errno.ENOTDIR)
        if self._children(folder):
            raise os_error(errno.ENOTEMPTY)
        self._names.remove(folder)
        return ()

    def _rename(self, request: FuseRequest) -> Reply:
        (target,) = protocol.RENAME_IN.unpack_from(request.body)
        return self._renamed(request.node, target, request.names(protocol.RENAME_IN.size), 0)

    def _rename2(self, request: FuseRequest) -> Reply:
        target, flags, _ = protocol.RENAME2_IN.unpack_from(request.body)
        return self._renamed(request.node, target, request.names(protocol.RENAME2_IN.size), flags)

    def _renamed(self, source: int, target: int, names: list[bytes], flags: int) -> Reply:
        old, new = map(checked_name, names)
        with logged_errors(self._log, f"Renaming {old!r}"):
            rename(self._names, self._contents, (self._folder(source), old), (self._folder(target), new), flags)
        return ()

    # Files

    def _create(self, request: FuseRequest) -> Reply:
        flags, mode, umask, _ = protocol.CREATE_IN.unpack_from(request.body)
        name = checked_name(request.names(protocol.CREATE_IN.size)[0])
        folder = self._folder(request.node)
        file = FileNode(self._names.table.next_number(), folder, name, time.time_ns(), mode=mode & ~umask & 0o777)
        file.opened = 1
        file.writers.add(process_of(request.pid))
        if flags & os.O_EXCL:
            self._contents.claim(file)
        self._contents.start_empty(file)
        self._names.add(file)
        return (self._entry(file), protocol.OPEN_OUT.pack(_HANDLE, OpenFlag.KEEP_CACHE, 0))

    def _open(self, request: FuseRequest) -> Reply:
        flags, _ = protocol.OPEN_IN.unpack_from(request.body)
        file = self._file(request.node)
        is_reading = flags & os.O_ACCMODE == os.O_RDONLY
        if self._is_closed and not is_reading:
            raise os_error(errno.EROFS)
        with self._names.lock:
            file.opened += 1
            if not is_reading:
                file.writers.add(process_of(request.pid))
            answer = OpenFlag.KEEP_CACHE if file.cached_version == file.versions else OpenFlag(0)
            file.cached_version = file.versions
        return (protocol.OPEN_OUT.pack(_HANDLE, answer | (OpenFlag.NO_FLUSH if is_reading else 0), 0),)

    def _read(self, request: FuseRequest) -> Reply:
        _, start, length = protocol.READ_IN.unpack_from(request.body)
        file = self._file(request.node)
        pieces = self._contents.read(file, start, length)
        self._progress.add(file.number, sum(map(len, pieces)), file.size)
        return pieces

    def _write(self, request: FuseRequest) -> Reply:
        _, start, length, *_ = protocol.WRITE_IN.unpack_from(request.body)
        data = request.body[protocol.WRITE_IN.size : protocol.WRITE_IN.size + length]
        self._contents.write(self._file(request.node), start, data)
        return (protocol.WRITE_OUT.pack(length, 0),)

    def _flush(self, request: FuseRequest) -> Reply:
        """Store the file when a process that opened it closes it, not when a child closes an inherited descriptor."""
        file = self._file(request.node)
        if not request.pid or any(is_thread_of(request.pid, writer) for writer in file.writers):
            self._contents.store(file)
        return ()

    def _fsync(self, request: FuseRequest) -> Reply:
        self._contents.store(self._file(request.node))
        return ()

    def _release(self, request: FuseRequest) -> Reply:
        file = self._file(request.node)
        with self._names.lock:
            file.opened -= 1
        if file.opened == 0:
            file.writers.clear()
            self._contents.closed(file)
            with self._names.lock:
                self._names.table.drop_if_gone(file)
        return ()

    # Facts

    def _getattr(self, request: FuseRequest) -> Reply:
        return (protocol.ATTR_OUT_HEAD.pack(_KEPT_SECONDS, 0, 0), self._attributes(self._node(request.node)))

    def _setattr(self, request: FuseRequest) -> Reply:
        valid, _, _, size, _, _, mtime, _, _, mtime_ns, _, mode, *_ = protocol.SETATTR_IN.unpack_from(request.body)
        node = self._node(request.node)
        if isinstance(node, FileNode):
            if valid & SetattrField.SIZE:
                self._contents.truncate(node, size)
                if not node.opened:
                    self._contents.store(node)
                    self._contents.closed(node)
            if valid & SetattrField.MODE:
                node.mode = stat.S_IMODE(mode)
        if valid & SetattrField.MTIME:
            node.modified_ns = time.time_ns() if valid & SetattrField.MTIME_NOW else mtime * 1_000_000_000 + mtime_ns
        return (protocol.ATTR_OUT_HEAD.pack(_KEPT_SECONDS, 0, 0), self._attributes(node))

    def _statfs(self, _: FuseRequest) -> Reply:
        """Sizes of the disk with the staged files: stores do not report theirs."""
        disk = os.statvfs(self._staging.disk)
        return (
            protocol.STATFS_OUT.pack(
                disk.f_blocks, disk.f_bfree, disk.f_bavail, 0, 0, disk.f_bsize, MAX_NAME_BYTES, disk.f_frsize, 0
            ),
        )

    # Folders

    def _opendir(self, request: FuseRequest) -> Reply:
        self._folder(request.node)
        with self._lock:
            handle = next(self._handles)
        return (protocol.OPEN_OUT.pack(handle, 0, 0),)

    def _readdir(self, request: FuseRequest) -> Reply:
        handle, offset, _ = protocol.READ_IN.unpack_from(request.body)
        if offset == 0 or handle not in self._listings:
            self._listings[handle] = self._listed(self._folder(request.node))
        return packed_listing(request, self._listings[handle], None)

    def _releasedir(self, request: FuseRequest) -> Reply:
        (handle,) = protocol.HANDLE_IN.unpack_from(request.body)
        self._listings.pop(handle, None)
        return ()

    def _listed(self, folder: FolderNode) -> list[ListedName]:
        above = folder.parent or folder
        listed: list[ListedName] = [(b".", folder.number, _FOLDER_MODE), (b"..", above.number, _FOLDER_MODE)]
        return listed + [(os.fsencode(node.name), node.number, _mode(node)) for node in self._children(folder)]

    def _children(self, folder: FolderNode) -> list[Node]:
        with logged_errors(self._log, f"Listing {self._names.key(folder)!r}"):
            return self._names.children(folder)

    def _child(self, folder: FolderNode, name: str) -> Node | None:
        with logged_errors(self._log, f"Finding {name!r}"):
            return self._names.child(folder, name)

    def _node(self, number: int) -> Node:
        node = self._names.table.get(number)
        if node is None:
            raise os_error(errno.ESTALE)
        return node

    def _folder(self, number: int) -> FolderNode:
        node = self._node(number)
        if isinstance(node, FolderNode):
            return node
        raise os_error(errno.ENOTDIR)

    def _file(self, number: int) -> FileNode:
        node = self._node(number)
        if isinstance(node, FileNode):
            return node
        raise os_error(errno.EISDIR)

    def _entry(self, node: Node) -> bytes:
        with self._names.lock:
            node.lookups += 1
        return protocol.entry(
            node.number, self._attributes(node), name_seconds=_KEPT_SECONDS, attribute_seconds=_KEPT_SECONDS
        )

    def _attributes(self, node: Node) -> bytes:
        is_file = isinstance(node, FileNode)
        return protocol.attributes(
            node=node.number,
            mode=_mode(node),
            size=node.size if isinstance(node, FileNode) else 4096,
            modified_ns=node.modified_ns,
            owner=self._owner,
            links=1 if is_file else 2,
        )


def _mode(node: Node) -> int:
    return stat.S_IFREG | node.mode if isinstance(node, FileNode) else _FOLDER_MODE


def _not_permitted(_: FuseRequest) -> Reply:
    raise os_error(errno.EPERM)
