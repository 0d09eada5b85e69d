import os
from collections.abc import Callable
from pathlib import Path

from runyard.node.inotify import Change, Inotify, Notice

_IN_FOLDER = (
    Change.MODIFY | Change.CLOSE_WRITE | Change.MOVED_TO | Change.CREATE | Change.ONLY_FOLDERS | Change.NO_LINKS
)
Listener = Callable[[Path, Change], None]


class Watcher:
    """Tells listeners which files changed in watched folders.

    `missed` turns true when the kernel dropped notices or a tree was too large to watch whole:
    the owner then has to look for itself.
    """

    def __init__(self, most_folders: int = 2000) -> None:
        self._inotify = Inotify()
        self._watched: dict[int, tuple[Path, Listener, bool]] = {}
        self._most_folders = most_folders
        self.missed = False
        self.is_whole = True

    def fileno(self) -> int:
        return self._inotify.fileno()

    def watch_folder(self, folder: Path, listener: Listener) -> None:
        """Changes directly in the folder."""
        self._watched[self._inotify.add(folder, _IN_FOLDER)] = (folder, listener, False)

    def watch_arrivals(self, folder: Path, listener: Listener) -> None:
        """Files made in the folder or moved into it, and no word about writes."""
        arrivals = Change.CREATE | Change.MOVED_TO | Change.ONLY_FOLDERS
        self._watched[self._inotify.add(folder, arrivals)] = (folder, listener, False)

    def watch_tree(self, root: Path, listener: Listener) -> None:
        """Changes anywhere below, also in folders made later. Files already there are told as FOUND."""
        folders = [root]
        while folders:
            folder = folders.pop()
            if not self._watch_one_of_tree(folder, listener):
                continue
            for entry in _entries(folder):
                if entry.is_dir(follow_symlinks=False):
                    folders.append(Path(entry.path))
                else:
                    listener(Path(entry.path), Change.FOUND)

    def dispatch(self) -> None:
        """Call the listeners for all changes known now."""
        for notice in self._inotify.read():
            if notice.change & Change.OVERFLOW:
                self.missed = True
            elif notice.change & Change.GONE:
                self._watched.pop(notice.watch, None)
            elif notice.watch in self._watched:
                self._tell(notice)

    def close(self) -> None:
        self._inotify.close()

    def _watch_one_of_tree(self, folder: Path, listener: Listener) -> bool:
        if len(self._watched) >= self._most_folders:
            self.is_whole = False
            return False
        try:
            watch = self._inotify.add(folder, _IN_FOLDER)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            # The user's limit on watches is reached (ENOSPC), or the folder may not be read.
            self.is_whole = False
            return False
        self._watched[watch] = (folder, listener, True)
        return True

    def _tell(self, notice: Notice) -> None:
        folder, listener, is_tree = self._watched[notice.watch]
        path = folder / notice.name
        if notice.change & Change.FOLDER:
            if is_tree and notice.change & (Change.CREATE | Change.MOVED_TO):
                self.watch_tree(path, listener)
            elif not is_tree:
                listener(path, notice.change)
            return
        listener(path, notice.change)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []
