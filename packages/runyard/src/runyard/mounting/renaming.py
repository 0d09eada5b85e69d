import contextlib
import errno

from runyard.model.data import StoredFile
from runyard.mounting.contents import FileContents
from runyard.mounting.failures import os_error
from runyard.mounting.nodes import FileNode, FolderNode, Node
from runyard.mounting.protocol import RenameFlag
from runyard.mounting.remote_names import RemoteNames

Place = tuple[FolderNode, str]


def rename(names: RemoteNames, contents: FileContents, source: Place, target: Place, flags: int) -> None:
    """Rename by copy, since stores cannot rename: store each file under its new key, then delete the old keys.

    After an error all files have their old names.
    """
    if flags & ~RenameFlag.NO_REPLACE:
        raise os_error(errno.EINVAL)
    moved = names.child(*source)
    if moved is None:
        raise os_error(errno.ENOENT)
    replaced = names.child(*target)
    _check(names, moved, replaced, flags)
    files = [moved] if isinstance(moved, FileNode) else list(names.files_below(moved))
    with contextlib.ExitStack() as held:
        for file in sorted(files, key=lambda file: file.number):
            held.enter_context(file.content)
        old_keys = _stored_under_new_keys(names, contents, moved, files, target)
        if isinstance(replaced, FileNode):
            replaced.is_removed = True
        names.move(moved, *target)
    for key in old_keys:
        contents.delete(key)


def _check(names: RemoteNames, moved: Node, replaced: Node | None, flags: int) -> None:
    if replaced is None:
        return
    if flags & RenameFlag.NO_REPLACE:
        raise os_error(errno.EEXIST)
    if isinstance(replaced, FolderNode):
        if isinstance(moved, FileNode):
            raise os_error(errno.EISDIR)
        if names.children(replaced):
            raise os_error(errno.ENOTEMPTY)
    elif isinstance(moved, FolderNode):
        raise os_error(errno.ENOTDIR)


def _stored_under_new_keys(
    names: RemoteNames, contents: FileContents, moved: Node, files: list[FileNode], target: Place
) -> list[str]:
    """Store the files under new keys; return the old keys to delete. Skips files that were never stored."""
    above = names.key(target[0])
    new_top, old_top = f"{above}/{target[1]}" if above else target[1], names.key(moved)
    done: list[tuple[FileNode, StoredFile, str, str]] = []
    try:
        for file in files:
            if file.stored is not None:
                before, old = file.stored, names.key(file)
                new = new_top + old[len(old_top) :]
                contents.store_under(file, new)
                done.append((file, before, old, new))
    except OSError:
        for file, before, _, new in done:
            file.stored = before
            file.changes += 1
            with contextlib.suppress(OSError):
                contents.delete(new)
        raise
    return [old for _, _, old, _ in done]
