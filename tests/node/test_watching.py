from pathlib import Path

from runyard.node.file_watcher import FileChange, FileWatcher
from runyard.node.shipping.growing_files import GrowingFile


class Heard:
    def __init__(self) -> None:
        self.changes: dict[str, FileChange] = {}

    def __call__(self, path: Path, change: FileChange) -> None:
        self.changes[path.name] = self.changes.get(path.name, FileChange(0)) | change


def test_files_in_folders_made_later_are_told(tmp_path):
    watcher, heard = FileWatcher(), Heard()
    watcher.watch_tree(tmp_path, heard)
    (tmp_path / "a" / "b").mkdir(parents=True)
    watcher.dispatch()
    (tmp_path / "a" / "b" / "file").write_text("x")
    watcher.dispatch()
    assert heard.changes["file"] & FileChange.CLOSE_WRITE


def test_files_that_were_there_before_are_found(tmp_path):
    (tmp_path / "old").write_text("x")
    watcher, heard = FileWatcher(), Heard()
    watcher.watch_tree(tmp_path, heard)
    assert heard.changes == {"old": FileChange.FOUND}


def test_a_tree_with_too_many_folders_is_said_not_to_be_watched_whole(tmp_path):
    for n in range(5):
        (tmp_path / str(n)).mkdir()
    watcher = FileWatcher(most_folders=3)
    watcher.watch_tree(tmp_path, Heard())
    assert not watcher.is_whole


def test_writes_are_no_arrivals(tmp_path):
    watcher, heard = FileWatcher(), Heard()
    (tmp_path / "busy").write_text("x")
    watcher.watch_arrivals(tmp_path, heard)
    (tmp_path / "busy").write_text("more")
    (tmp_path / "new").write_text("x")
    watcher.dispatch()
    assert set(heard.changes) == {"new"}


def test_a_growing_file_is_read_on_from_where_it_was(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"one")
    file = GrowingFile(path)
    file.advance(file.read(100))
    with path.open("ab") as more:
        more.write(b"two")
    assert file.read(100) == b"two"


def test_a_file_rewritten_longer_than_before_is_noticed(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"first")
    file = GrowingFile(path)
    file.advance(file.read(100))
    path.write_bytes(b"another text")
    assert file.read(100) == b""
    assert file.was_rewritten
