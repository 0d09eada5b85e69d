import os
from collections.abc import Iterator

from runyard.datastores.beneath import Root
from runyard.datastores.unfinished import is_unfinished
from runyard.model.names import check_text


def walk(root: Root, prefix: str) -> Iterator[tuple[str, os.stat_result]]:
    """Every regular file whose path begins with the prefix, sorted by path. Links are followed inside the root alone:
    one that leads out is AccessDenied, for leaving it out would be silent loss. Dangling ones are no files."""
    folder, slash, name = prefix.rpartition("/")
    yield from _walk(root, f"{folder}{slash}", name, ())


def _walk(
    root: Root, folder: str, name: str, above: tuple[tuple[int, int], ...]
) -> Iterator[tuple[str, os.stat_result]]:
    for entry in _entries(root, folder):
        if not entry.name.startswith(name) or is_unfinished(entry.name):
            continue
        path = check_text(folder + entry.name, "path")
        if entry.is_symlink():
            if not os.path.exists(entry.path):
                continue
            if not root.contains(entry.path):
                raise root.leads_out(path)
        if entry.is_dir():
            facts = entry.stat()
            here = (facts.st_dev, facts.st_ino)
            if here not in above:  # else a link to a folder that it lies in
                yield from _walk(root, f"{path}/", "", (*above, here))
        elif entry.is_file():
            yield path, entry.stat()


def _entries(root: Root, folder: str) -> list[os.DirEntry[str]]:
    """In the order of the paths below them: 'a-b' comes before 'a/b'."""
    try:
        with os.scandir(f"{root.folder}/{folder}") as entries:
            return sorted(entries, key=lambda entry: f"{entry.name}/" if entry.is_dir() else entry.name)
    except (FileNotFoundError, NotADirectoryError) as error:
        if root.folder.is_dir():
            return []  # nothing begins with that prefix
        raise root.explain(folder, error) from error
    except OSError as error:
        raise root.explain(folder, error) from error
