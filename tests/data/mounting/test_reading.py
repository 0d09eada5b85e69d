import errno
import mmap
import os
import signal
import stat
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from runyard.core.errors import AccessDenied, DataFailed, NotFound, SourceChanged, Unreachable
from runyard.core.records.data import SourceFile
from tests.data.mounting.children import in_child
from tests.data.mounting.flaky_store import FlakyStore
from tests.data.mounting.served import Served, read_only_tree, serving

Show = Callable[..., Served]
SEVERAL_REQUESTS = os.urandom(1000) * 3333


def test_files_have_the_content_and_facts_of_their_sources(store: FlakyStore, show: Show) -> None:
    store.files = {"a/b/deep": b"x" * 513, "empty": b"", "large": SEVERAL_REQUESTS}
    mount = show().path
    assert {path: (mount / path).read_bytes() for path in store.files} == store.files
    facts = os.stat(mount / "a" / "b" / "deep")
    assert (stat.S_IMODE(facts.st_mode), facts.st_size, facts.st_blocks, facts.st_nlink) == (0o444, 513, 2, 1)
    assert (facts.st_uid, facts.st_gid) == (os.getuid(), os.getgid())
    folder = os.stat(mount / "a")
    assert (stat.S_IMODE(folder.st_mode), folder.st_nlink) == (0o555, 3)
    assert os.statvfs(mount).f_files == 6


def test_any_part_of_a_file_can_be_read(store: FlakyStore, show: Show) -> None:
    store.files = {"large": SEVERAL_REQUESTS}
    with open(show().path / "large", "rb", buffering=0) as file:
        for start in (0, 1, 4095, 1_048_570, len(SEVERAL_REQUESTS) - 5, len(SEVERAL_REQUESTS), 1 << 40):
            assert os.pread(file.fileno(), 10, start) == SEVERAL_REQUESTS[start : start + 10]


def test_files_can_be_mapped_into_memory(store: FlakyStore, show: Show) -> None:
    store.files = {"large": SEVERAL_REQUESTS}
    path = show().path / "large"

    def child() -> None:  # a page that is touched here is served by the other process
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as pages:
            assert pages[1_500_000:1_500_100] == SEVERAL_REQUESTS[1_500_000:1_500_100]
            assert pages[:] == SEVERAL_REQUESTS

    in_child(child)


def test_nothing_can_be_changed(store: FlakyStore, show: Show) -> None:
    store.files = {"file": b"content"}
    mount = show().path
    attempts: Sequence[Callable[[], object]] = (
        lambda: (mount / "file").write_bytes(b"other"),
        lambda: (mount / "new").touch(),
        lambda: (mount / "file").unlink(),
        lambda: (mount / "folder").mkdir(),
        lambda: (mount / "file").rename(mount / "other"),
        lambda: (mount / "file").chmod(0o777),
        lambda: os.setxattr(mount / "file", "user.x", b""),
    )
    for attempt in attempts:
        with pytest.raises(OSError, match=r"Read-only|not supported"):
            attempt()
    assert (mount / "file").read_bytes() == b"content"


def test_a_file_that_was_read_is_opened_read_and_closed_without_asking(store: FlakyStore, show: Show) -> None:
    store.files = {"folder/file": SEVERAL_REQUESTS}
    mount = show()
    assert os.listdir(mount.path / "folder") == ["file"]
    assert (mount.path / "folder" / "file").read_bytes() == SEVERAL_REQUESTS
    before = mount.asked.copy()
    assert os.listdir(mount.path / "folder") == ["file"]
    assert (mount.path / "folder" / "file").read_bytes() == SEVERAL_REQUESTS
    assert not (mount.path / "missing").exists()
    assert not (mount.path / "missing").exists()
    assert mount.asked - before == {"LOOKUP": 1}


def test_the_files_of_a_listed_folder_are_not_looked_up_again(store: FlakyStore, show: Show) -> None:
    store.files = {f"folder/{number}": b"content" for number in range(300)}
    mount = show()
    for name in os.listdir(mount.path / "folder"):
        assert (mount.path / "folder" / name).read_bytes() == b"content"
    assert (mount.asked["LOOKUP"], mount.asked["READ"]) == (1, 300)


def test_ten_thousand_files_of_a_folder_are_listed(store: FlakyStore, show: Show) -> None:
    files = [SourceFile(f"many/{number:06}.jpg", "far", "one", number) for number in range(10_000)]
    with os.scandir(show(files).path / "many") as listed:
        assert {entry.name: entry.stat().st_size for entry in listed} == {
            file.path.removeprefix("many/"): file.size for file in files
        }


ODD_NAMES = [
    "with space",
    "new\nline",
    "ünï",
    "文件",
    "-rf",
    "'quo\"te",
    "back\\slash",
    "\udcff\udcfe",
    "n" * 255,
    "...",
]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_are_kept(name: str, store: FlakyStore, show: Show) -> None:
    store.files = {"one": b"content"}
    mount = show([SourceFile(f"{name}/{name}", "far", "one", 7)]).path
    assert (os.listdir(mount), os.listdir(mount / name)) == ([name], [name])
    assert (mount / name / name).read_bytes() == b"content"


def test_many_threads_read_at_once(store: FlakyStore, show: Show) -> None:
    store.files = {f"{number % 7}/{number}": os.urandom(100) * (number + 1) for number in range(500)}
    mount = show().path
    with ThreadPoolExecutor(32) as pool:
        contents = list(pool.map(lambda path: (mount / path).read_bytes(), store.files))
    assert dict(zip(store.files, contents, strict=True)) == store.files


@pytest.mark.parametrize(
    ("trouble", "number"),
    [
        (NotFound("The file is gone."), errno.ENOENT),
        (AccessDenied("The key is refused."), errno.EACCES),
        (SourceChanged("It is another."), errno.ESTALE),
        (Unreachable("No answer for 60 seconds."), errno.ETIMEDOUT),
        (DataFailed("Something else."), errno.EIO),
    ],
)
def test_a_failed_read_is_an_error_of_the_script_and_a_line_of_the_log(
    trouble: DataFailed, number: int, store: FlakyStore, show: Show
) -> None:
    store.files = {"folder/file": b"content"}
    mount = show()
    store.trouble = trouble
    with pytest.raises(OSError, match=os.strerror(number)):
        (mount.path / "folder" / "file").read_bytes()
    assert mount.lines == [f"Reading 'folder/file' failed: {trouble.problem}"]
    store.trouble = None
    assert (mount.path / "folder" / "file").read_bytes() == b"content"


def test_a_failed_read_is_tried_once_though_the_kernel_asks_twice(store: FlakyStore, show: Show) -> None:
    store.files = {"file": b"content"}
    mount = show()
    tries: list[int] = []

    def fail(_path: str, _start: int) -> None:
        tries.append(1)
        raise Unreachable("No answer.")

    store.before_read = fail
    with pytest.raises(OSError, match="timed out"):
        (mount.path / "file").read_bytes()
    assert (len(tries), mount.asked["READ"]) == (1, 2)


def test_a_file_that_changed_at_its_source_is_never_read_as_two(store: FlakyStore, show: Show) -> None:
    store.files = {"file": b"a" * 1000}
    mount = show()
    store.files["file"] = b"b" * 1000
    with pytest.raises(OSError, match="Stale"):
        (mount.path / "file").read_bytes()


@pytest.mark.parametrize("is_ranged", [False, True])
def test_a_file_that_comes_whole_or_without_a_size_is_read_like_any_other(
    is_ranged: bool, store: FlakyStore, show: Show
) -> None:
    store.files = {"file": SEVERAL_REQUESTS}
    mount = show([store.source("file", is_ranged=is_ranged, tells_size=False)])
    assert (mount.path / "file").stat().st_size == len(SEVERAL_REQUESTS)
    assert (mount.path / "file").read_bytes() == SEVERAL_REQUESTS
    assert store.fetches == ["file"]


class SlowReader:
    """Knows no sizes, and waits before it says one."""

    def __init__(self) -> None:
        self.is_asked, self.may_answer = threading.Event(), threading.Event()

    def size(self, _: SourceFile) -> int:
        self.is_asked.set()
        assert self.may_answer.wait(60), "nobody let it answer"
        return 7

    def read(self, _: SourceFile, start: int, length: int) -> Sequence[memoryview]:
        return [memoryview(b"content")[start : start + length]]


UNKNOWN = SourceFile("file", "", "http://somewhere/file", None)


def test_a_size_that_nobody_told_is_found_out_when_it_is_asked_for(tmp_path: Path) -> None:
    reader, lines = SlowReader(), list[str]()
    with serving(read_only_tree([UNKNOWN], reader, lines), tmp_path / "mount", lines) as mount:
        assert os.listdir(mount.path) == ["file"]
        assert not reader.is_asked.is_set()
        reader.may_answer.set()
        assert (mount.path / "file").read_bytes() == b"content"
        assert (mount.path / "file").stat().st_size == 7


def test_a_process_that_is_killed_does_not_wait_for_a_store_that_hangs(tmp_path: Path) -> None:
    reader, lines = SlowReader(), list[str]()
    with serving(read_only_tree([UNKNOWN], reader, lines), tmp_path / "mount", lines) as mount:
        waiting = os.fork()
        if waiting == 0:
            os.stat(mount.path / "file")
            os._exit(0)
        assert reader.is_asked.wait(10)
        os.kill(waiting, signal.SIGKILL)
        begun = time.monotonic()
        assert os.waitstatus_to_exitcode(os.waitpid(waiting, 0)[1]) == -signal.SIGKILL
        assert time.monotonic() - begun < 30  # the store answers after 60
        reader.may_answer.set()


def test_a_harmless_signal_does_not_disturb_a_read(tmp_path: Path) -> None:
    reader, lines = SlowReader(), list[str]()
    with serving(read_only_tree([UNKNOWN], reader, lines), tmp_path / "mount", lines) as mount:
        noted = threading.Event()
        earlier = signal.signal(signal.SIGUSR1, lambda *_: noted.set())
        try:
            with ThreadPoolExecutor(1) as pool:
                answering = pool.submit(lambda: (reader.is_asked.wait(10), _signal_and_answer(reader)))
                assert os.stat(mount.path / "file").st_size == 7
                answering.result()
        finally:
            signal.signal(signal.SIGUSR1, earlier)
        assert noted.is_set()


def _signal_and_answer(reader: SlowReader) -> None:
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
    reader.may_answer.set()
