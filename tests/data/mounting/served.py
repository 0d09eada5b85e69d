"""Mounts served by the test's own process, so that a test can look behind them."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from runyard.core.ports.data import DataStore
from runyard.core.records.data import SourceFile
from runyard.data.fuse import WritableMount, kernel
from runyard.data.fuse.device import open_mount
from runyard.data.fuse.file_index import FileIndex
from runyard.data.fuse.log import MountLog, ReadProgress
from runyard.data.fuse.protocol import FuseRequest, Op
from runyard.data.fuse.read_only_tree import FileReader, ReadOnlyTree
from runyard.data.fuse.server import FuseServer, Handler, Reply, Tree
from runyard.data.fuse.staged_files import StagingFolder
from runyard.data.fuse.writable_tree import WritableTree


class CountedTree:
    """Another tree, and how often the kernel asked it for what."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self.is_writable = tree.is_writable
        self.asked: Counter[str] = Counter()

    def handlers(self) -> Mapping[int, Handler]:
        return {op: self._counted(Op(op).name, handler) for op, handler in self._tree.handlers().items()}

    def _counted(self, name: str, handler: Handler) -> Handler:
        def handle(request: FuseRequest) -> Reply:
            self.asked[name] += 1
            return handler(request)

        return handle


class Served:
    def __init__(self, path: Path, tree: CountedTree, server: FuseServer, lines: list[str]) -> None:
        self.path, self.server, self.lines = path, server, lines
        self.asked = tree.asked


@contextmanager
def serving(tree: Tree, path: Path, lines: list[str]) -> Iterator[Served]:
    path.mkdir()
    counted = CountedTree(tree)
    device = open_mount(path, "data", read_only=not tree.is_writable)
    server = FuseServer(device, counted, MountLog(lines.append))
    server.start()
    try:
        yield Served(path, counted, server, lines)
    finally:
        kernel.unmount(path)
        server.wait(10)


def read_only_tree(files: Sequence[SourceFile], reader: FileReader, lines: list[str]) -> ReadOnlyTree:
    index = FileIndex(files)
    return ReadOnlyTree(index, reader, MountLog(lines.append), ReadProgress("data", index.bytes))


def writable_tree(
    store: DataStore, reader: FileReader, staged: Path, prefix: str, log_line: Callable[[str], None]
) -> WritableTree:
    mount = WritableMount(staged, "far", prefix, "data")
    return WritableTree(mount, store, reader, StagingFolder(staged), MountLog(log_line), ReadProgress("data", None))
