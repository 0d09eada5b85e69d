import os
from collections.abc import Callable
from pathlib import Path

from runyard.node.inotify import Change, Inotify, Notice

_IN_FOLDER = (
    Change.MODIFY | Change.CLOSE_WRITE | Change.MOVED_TO | Change.CREATE | Change.ONLY_FOLDERS | Change.NO_LINKS
)
Listener = Callable[[Path, Change], None]


class Watcher:
    """Calls listeners with the files that changed in watched folders.

    `missed` turns true when the kernel dropped events, and `is_whole` false when a tree was too large to watch whole:
    the owner then has to scan the folders itself.
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
        """Report changes of files directly in the folder."""
        self._watched[self._inotify.add(folder, _IN_FOLDER)] = (folder, listener, False)

    def watch_arrivals(self, folder: Path, listener: Listener) -> None:
        """Report files made in the folder or moved into it, not writes."""
        arrivals = Change.CREATE | Change.MOVED_TO | Change.ONLY_FOLDERS
        self._watched[self._inotify.add(folder, arrivals)] = (folder, listener, False)

    def watch_tree(self, root: Path, listener: Listener) -> None:
        """Report changes anywhere below, also in folders made later. Existing files are reported as FOUND."""
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
        for event in self._inotify.read():
            if event.change & Change.OVERFLOW:
                self.missed = True
            elif event.change & Change.GONE:
                self._watched.pop(event.watch, None)
            elif event.watch in self._watched:
                self._call_listener(event)

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

    def _call_listener(self, event: Notice) -> None:
        folder, listener, is_tree = self._watched[event.watch]
        path = folder / event.name
        if event.change & Change.FOLDER:
            if is_tree and event.change & (Change.CREATE | Change.MOVED_TO):
                self.watch_tree(path, listener)
            elif not is_tree:
                listener(path, event.change)
            return
        listener(path, event.change)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []
