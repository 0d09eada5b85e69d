from collections.abc import Sequence
from dataclasses import dataclass, field

from runyard.core.errors import DataFailed
from runyard.core.records.data import SourceFile
from runyard.data.fuse.protocol import ROOT_ID

MAX_NAME_BYTES = 255


@dataclass(slots=True)
class IndexFolder:
    node: int
    parent: int
    children: dict[bytes, int] = field(default_factory=dict)
    folders: int = 0
    """Number of children that are folders."""


class FileIndex:
    """Index of a dataset's files for FUSE, which looks up a name in a folder number, or a file number.

    Raises DataFailed, naming the file, for a path that cannot be a file: with an empty part, '.', '..', a NUL, a part
    of more than 255 bytes, a duplicate, or the name of a folder. Empty objects that mark a folder on object stores are
    left out.
    """

    def __init__(self, files: Sequence[SourceFile]) -> None:
        self.root = IndexFolder(ROOT_ID, ROOT_ID)
        self.nodes: list[IndexFolder | SourceFile] = [self.root, self.root]
        self.bytes = 0
        self._folders: dict[str, IndexFolder] = {"": self.root}
        for file in sorted(files, key=_path):
            self._add(file)

    def _add(self, file: SourceFile) -> None:
        if file.path.startswith("/"):
            raise _refused(file, "its path is absolute")
        above, _, name = file.path.rpartition("/")
        folder = self._folders.get(above)
        if folder is None:
            folder = self._made(above, file)
        if not name and file.size == 0:
            return
        raw = _checked(name, file)
        if raw in folder.children:
            raise _refused(file, "it is there twice")
        folder.children[raw] = len(self.nodes)
        self.nodes.append(file)
        self.bytes += file.size or 0

    def _made(self, path: str, wanted_by: SourceFile) -> IndexFolder:
        above, _, name = path.rpartition("/")
        parent = self._folders.get(above) or self._made(above, wanted_by)
        raw = _checked(name, wanted_by)
        node = parent.children.get(raw)
        if node is None:
            node = len(self.nodes)
            self.nodes.append(self.root)
        else:
            shadowed = self.nodes[node]
            if not isinstance(shadowed, SourceFile) or shadowed.size != 0:
                raise _refused(wanted_by, f"{path!r} is a file as well as a folder")
        folder = IndexFolder(node, parent.node)
        self.nodes[node] = folder
        parent.children[raw] = node
        parent.folders += 1
        self._folders[path] = folder
        return folder


def _path(file: SourceFile) -> str:
    return file.path


def _checked(name: str, file: SourceFile) -> bytes:
    if name in ("", ".", ".."):
        raise _refused(file, f"its path has the part {name!r}")
    raw = name.encode("utf-8", "surrogateescape")
    if b"\0" in raw:
        raise _refused(file, "its path holds a NUL")
    if len(raw) > MAX_NAME_BYTES:
        raise _refused(file, f"a part of its path has {len(raw)} bytes, and no file system takes more than 255")
    return raw


def _refused(file: SourceFile, reason: str) -> DataFailed:
    shown = file.path if len(file.path) <= 100 else f"{file.path[:97]}..."
    return DataFailed(
        f"The file {shown!r} cannot be mounted: {reason}.",
        hint="Leave it out of the dataset, or rename it.",
        path=file.path,
    )
