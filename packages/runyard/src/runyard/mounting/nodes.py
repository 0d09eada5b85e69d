import itertools
import threading
from dataclasses import dataclass, field

from runyard.model.data import StoredFile
from runyard.mounting.protocol import ROOT_ID
from runyard.mounting.staging import StagedFile

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
