import errno
import itertools
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from runyard.core.errors import NotFound
from runyard.core.ports.data import DataStore
from runyard.core.records.data import StoredFile
from runyard.data.fuse.failures import os_error
from runyard.data.fuse.file_index import MAX_NAME_BYTES
from runyard.data.fuse.log import MountLog
from runyard.data.fuse.protocol import ROOT_ID
from runyard.data.fuse.staged_files import StagedFile

FRESH_SECONDS = 3.0
"""How long names are cached; after that, changes by others appear."""

NEVER = float("-inf")


@dataclass(eq=False, slots=True)
class FolderNode:
    number: int
    parent: "FolderNode | None"
    name: str
    modified_ns: int
    children: "dict[str, Node]" = field(default_factory=dict)
    removed: dict[str, float] = field(default_factory=dict)
    """Names removed through this mount, and when: a listing that started earlier still has them."""
    is_made_here: bool = False
    """Created through this mount: it stays while empty, though stores have no empty folders."""
    seen_at: float = NEVER
    listed_at: float = NEVER
    """When it was listed last."""
    lookups: int = 0

    @property
    def is_ours(self) -> bool:
        """Whether it exists regardless of what the store lists."""
        return self.is_made_here or any(child.is_ours for child in self.children.values())


@dataclass(eq=False, slots=True)
class FileNode:
    number: int
    parent: FolderNode
    name: str
    modified_ns: int
    stored: StoredFile | None = None
    staged: StagedFile | None = None
    is_staged_stale: bool = False
    """Another writer has stored other content since."""
    changes: int = 0
    written: int = 0
    """The last change that is stored."""
    mode: int = 0o644
    opened: int = 0
    writers: set[int] = field(default_factory=set)
    """Processes that opened it for writing."""
    is_removed: bool = False
    seen_at: float = NEVER
    lookups: int = 0
    versions: int = 0
    """How often another writer has stored other content."""
    cached_version: int = 0
    """The version that the kernel has cached pages of."""
    content: threading.Lock = field(default_factory=threading.Lock)
    """Held while the content is changed or stored."""

    @property
    def is_dirty(self) -> bool:
        return self.changes > self.written and not self.is_removed

    @property
    def is_ours(self) -> bool:
        return self.opened > 0 or self.is_dirty

    @property
    def size(self) -> int:
        staged = self.staged
        if staged is not None and not self.is_staged_stale:
            return staged.size
        return (self.stored.size or 0) if self.stored else 0


Node = FolderNode | FileNode


class RemoteNames:
    """Cache of the names below a folder of a store, with the names that scripts have created or removed since.

    `lock` guards the tree of nodes; it is never held during a request to the store.
    """

    def __init__(self, store: DataStore, prefix: str, log: MountLog) -> None:
        self._store, self._log = store, log
        self._prefix = prefix.strip("/")
        self.lock = threading.RLock()
        self.root = FolderNode(ROOT_ID, None, "", time.time_ns(), is_made_here=True)
        self.table = NodeTable(self.root)

    def key(self, node: Node) -> str:
        """Path of a node on the store."""
        with self.lock:
            parts = []
            at: Node | None = node
            while at is not None and at is not self.root:
                parts.append(at.name)
                at = at.parent
        return "/".join([*([self._prefix] if self._prefix else []), *reversed(parts)])

    def child(self, folder: FolderNode, name: str) -> Node | None:
        """Current node of that name, or None. Asks the store unless the name is cached."""
        asked_at = time.monotonic()
        with self.lock:
            known = folder.children.get(name)
            if known is not None and (known.is_ours or asked_at - known.seen_at < FRESH_SECONDS):
                return known
            if known is None and asked_at - folder.listed_at < FRESH_SECONDS:
                return None
            key = self.key(folder)
        path = f"{key}/{name}" if key else name
        found = self._find(path)
        with self.lock:
            if _is_changed_here(folder, name, asked_at):
                return folder.children.get(name)
            if found is None:
                self._drop(folder, name)
                return None
            if isinstance(found, StoredFile):
                return self._seen_file(folder, name, found, asked_at)
            return self._seen_folder(folder, name, asked_at)

    def children(self, folder: FolderNode) -> list[Node]:
        """Nodes in a folder. Asks the store unless the folder is cached."""
        asked_at = time.monotonic()
        if asked_at - folder.listed_at >= FRESH_SECONDS:
            key = self.key(folder)
            listed = list(self._store.list(f"{key}/" if key else ""))
            with self.lock:
                self._merge(folder, len(key) + 1 if key else 0, listed, asked_at)
        with self.lock:
            return list(folder.children.values())

    def files_below(self, folder: FolderNode) -> Iterator[FileNode]:
        for child in self.children(folder):
            if isinstance(child, FolderNode):
                yield from self.files_below(child)
            else:
                yield child

    def add(self, node: Node) -> None:
        """Add a node that was created through the mount."""
        with self.lock:
            assert node.parent is not None
            node.parent.children[node.name] = node
            node.parent.removed.pop(node.name, None)
            node.parent.modified_ns = time.time_ns()
            node.seen_at = time.monotonic()
            self.table.add(node)

    def remove(self, node: Node) -> None:
        """Remove a node through the mount. Its folder stays, also if empty."""
        with self.lock:
            folder = node.parent
            assert folder is not None
            if folder.children.get(node.name) is node:
                del folder.children[node.name]
            folder.removed[node.name] = time.monotonic()
            folder.is_made_here = True
            folder.modified_ns = time.time_ns()
            self.table.drop_if_gone(node)

    def move(self, node: Node, folder: FolderNode, name: str) -> None:
        """Rename a node, in place of any node of that name."""
        with self.lock:
            replaced = folder.children.get(name)
            if replaced is not None:
                self.remove(replaced)
            self.remove(node)
            node.parent, node.name = folder, name
            if isinstance(node, FolderNode):
                node.is_made_here = True
            self.add(node)

    def _find(self, path: str) -> StoredFile | bool | None:
        """The file; True for a folder; None if there is neither."""
        try:
            return self._store.stat(path)
        except NotFound:
            return True if next(iter(self._store.list(f"{path}/")), None) is not None else None

    def _merge(self, top: FolderNode, skip: int, listed: list[StoredFile], asked_at: float) -> None:
        seen: dict[FolderNode, set[str]] = {top: set()}
        for file in listed:
            parts = file.path[skip:].split("/")
            marks_folder = parts[-1] == "" and not file.size
            if marks_folder:
                parts.pop()
            if all(map(_can_be_shown, parts)):
                self._merge_one(top, parts, None if marks_folder else file, seen, asked_at)
            else:
                self._log.problem(f"{file.path!r} has a name that no folder can show; it is left out.")
        for folder, names in seen.items():
            folder.listed_at = asked_at
            folder.removed = {name: at for name, at in folder.removed.items() if at > asked_at}
            for name in [name for name in folder.children if name not in names]:
                if folder.children[name].seen_at < asked_at:
                    self._drop(folder, name)

    def _merge_one(
        self,
        top: FolderNode,
        parts: list[str],
        file: StoredFile | None,
        seen: dict[FolderNode, set[str]],
        asked_at: float,
    ) -> None:
        """Merge one path; `file` is None for a folder marker."""
        folder = top
        for name in parts if file is None else parts[:-1]:
            seen[folder].add(name)
            if _is_changed_here(folder, name, asked_at):
                return
            folder = self._seen_folder(folder, name, asked_at)
            seen.setdefault(folder, set())
        if file is not None:
            seen[folder].add(parts[-1])
            known = folder.children.get(parts[-1])
            is_shadowed = isinstance(known, FolderNode) and known.seen_at == asked_at
            if not is_shadowed and not _is_changed_here(folder, parts[-1], asked_at):
                self._seen_file(folder, parts[-1], file, asked_at)

    def _seen_file(self, folder: FolderNode, name: str, file: StoredFile, asked_at: float) -> Node:
        known = folder.children.get(name)
        if isinstance(known, FileNode):
            if not known.is_ours and (known.stored is None or _is_other(known.stored, file)):
                known.stored, known.modified_ns = file, _modified_ns(file, known.modified_ns)
                known.versions += 1
                known.is_staged_stale = True
        elif known is not None and known.is_ours:
            return known
        else:
            known = FileNode(self.table.next_number(), folder, name, _modified_ns(file, time.time_ns()), file)
            folder.children[name] = known
            self.table.add(known)
        known.seen_at = asked_at
        return known

    def _seen_folder(self, folder: FolderNode, name: str, asked_at: float) -> FolderNode:
        known = folder.children.get(name)
        if not isinstance(known, FolderNode):
            known = FolderNode(self.table.next_number(), folder, name, time.time_ns())
            folder.children[name] = known
            self.table.add(known)
        known.seen_at = asked_at
        return known

    def _drop(self, folder: FolderNode, name: str) -> None:
        gone = folder.children.get(name)
        if gone is not None and not gone.is_ours:
            del folder.children[name]
            self.table.drop_if_gone(gone)


def checked_name(raw: bytes) -> str:
    """Decode a name to create. Stores have text only: raises EILSEQ for other bytes, ENAMETOOLONG."""
    if len(raw) > MAX_NAME_BYTES:
        raise os_error(errno.ENAMETOOLONG)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise os_error(errno.EILSEQ) from None


def _can_be_shown(name: str) -> bool:
    return name not in ("", ".", "..") and "\0" not in name and len(name.encode("utf-8", "replace")) <= MAX_NAME_BYTES


def _is_changed_here(folder: FolderNode, name: str, since: float) -> bool:
    known = folder.children.get(name)
    return folder.removed.get(name, since) > since or (known is not None and known.seen_at > since)


def _is_other(known: StoredFile, file: StoredFile) -> bool:
    return (known.size, known.etag) != (file.size, file.etag)


def _modified_ns(file: StoredFile, otherwise: int) -> int:
    return int(file.modified_at.timestamp() * 1e9) if file.modified_at else otherwise


class NodeTable:
    """Nodes by inode number. A number is never reused."""

    def __init__(self, root: FolderNode) -> None:
        self._nodes: dict[int, Node] = {ROOT_ID: root}
        self._numbers = itertools.count(ROOT_ID + 1)

    def next_number(self) -> int:
        return next(self._numbers)

    def add(self, node: Node) -> None:
        self._nodes[node.number] = node

    def get(self, number: int) -> Node | None:
        return self._nodes.get(number)

    def files(self) -> list[FileNode]:
        return [node for node in list(self._nodes.values()) if isinstance(node, FileNode)]

    def forget(self, number: int, lookups: int) -> None:
        """Handle FORGET of the kernel. A node that is in no folder is dropped."""
        node = self._nodes.get(number)
        if node is None:
            return
        node.lookups -= lookups
        self.drop_if_gone(node)

    def drop_if_gone(self, node: Node) -> None:
        is_attached = node.parent is None or node.parent.children.get(node.name) is node
        is_needed = isinstance(node, FileNode) and (node.opened > 0 or node.is_dirty)
        if node.lookups <= 0 and not is_attached and not is_needed:
            self._nodes.pop(node.number, None)
