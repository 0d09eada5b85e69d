import errno
import os
import stat
from collections.abc import Iterator

from runyard.datastores.folders.beneath import Root
from runyard.datastores.unfinished import is_unfinished
from runyard.model.names import check_text


def walk(root: Root, prefix: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield every regular file whose path begins with the prefix, sorted by path.

    Raises AccessDenied at a link that leads out of the root: to skip it would lose data silently. Dangling links are
    skipped.
    """
    folder, slash, name = prefix.rpartition("/")
    if os.path.exists(f"{root.folder}/{folder}") and not root.contains(f"{root.folder}/{folder}"):
        raise root.leads_out(folder)
    yield from _walk(root, f"{folder}{slash}", name, frozenset())


def _walk(
    root: Root, folder: str, name: str, above: frozenset[tuple[int, int]]
) -> Iterator[tuple[str, os.stat_result]]:
    for entry, facts in _entries(root, folder, name):
        path = check_text(folder + entry.name, "path")
        if entry.is_symlink() and not root.contains(entry.path):
            raise root.leads_out(path)
        if stat.S_ISREG(facts.st_mode):
            yield path, facts
        elif stat.S_ISDIR(facts.st_mode):
            here = (facts.st_dev, facts.st_ino)
            if here not in above:  # else it is a link to one of its own parents
                yield from _walk(root, f"{path}/", "", above | {here})


def _entries(root: Root, folder: str, name: str) -> list[tuple[os.DirEntry[str], os.stat_result]]:
    """Entries in the order of the paths below them: 'a-b' comes before 'a/b'."""
    try:
        with os.scandir(f"{root.folder}/{folder}") as entries:
            found = [
                (f"{entry.name}/" if stat.S_ISDIR(facts.st_mode) else entry.name, entry, facts)
                for entry in entries
                if entry.name.startswith(name) and not is_unfinished(entry.name) and (facts := _facts(entry))
            ]
    except (FileNotFoundError, NotADirectoryError) as error:
        if root.folder.is_dir():
            return []  # no such folder, or it was removed just now
        raise root.explain(folder, error) from error
    except OSError as error:
        raise root.explain(folder, error) from error
    found.sort(key=lambda each: each[0])
    return [(entry, facts) for _, entry, facts in found]


def _facts(entry: os.DirEntry[str]) -> os.stat_result | None:
    """Stat, or None for a dangling link and for an entry that was removed just now."""
    try:
        return entry.stat()
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return None
        raise
