import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from runyard.core.records.data import SourceFile
from runyard.data.fuse import kernel
from runyard.data.transfers import BlockCache, Reader
from tests.data.mounting.attempt_mounts import AttemptMounts
from tests.data.mounting.flaky_store import FlakyStore
from tests.data.mounting.served import Served, read_only_tree, serving, writable_tree
from tests.processes import words_of
from tests.servers.fixtures import azurite, azurite_access, s3_access, s3_server

__all__ = ["azurite", "azurite_access", "s3_access", "s3_server"]

CACHE_BYTES = 1 << 28
_started: list[int] = []


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No mount and no mount process stays behind any of these tests."""
    yield
    folder = tmp_path_factory.getbasetemp()
    assert kernel.mounts_below(folder) == []
    # The kernel may have given the number to another process since; that one does not name our folder.
    assert [pid for pid in _started if any(os.fsencode(folder) in words for words in words_of(pid))] == []


@pytest.fixture(autouse=True)
def a_test_that_fails_leaves_no_mount(tmp_path: Path) -> Iterator[None]:
    yield
    for point in reversed(kernel.mounts_below(tmp_path)):
        kernel.unmount(point)


@pytest.fixture
def store() -> FlakyStore:
    return FlakyStore()


@pytest.fixture
def reader(tmp_path: Path, store: FlakyStore) -> Iterator[Reader]:
    cache = BlockCache(tmp_path / "cache", CACHE_BYTES)
    made = Reader(cache, {"far": store})
    yield made
    made.close()
    cache.close()


@pytest.fixture
def show(tmp_path: Path, store: FlakyStore, reader: Reader) -> Iterator[Callable[..., Served]]:
    """Mount files of the store read-only, all of them unless told which."""
    with ExitStack() as mounts:

        def show(files: Sequence[SourceFile] | None = None) -> Served:
            chosen = [store.source(path) for path in store.files] if files is None else files
            lines: list[str] = []
            return mounts.enter_context(serving(read_only_tree(chosen, reader, lines), tmp_path / "mount", lines))

        yield show


@pytest.fixture
def write(tmp_path: Path, store: FlakyStore, reader: Reader) -> Iterator[Callable[..., tuple[Served, object]]]:
    """Mount the store, or a folder of it, to be written: the mount and its tree."""
    with ExitStack() as mounts:

        def write(prefix: str = "") -> tuple[Served, object]:
            lines: list[str] = []
            tree = writable_tree(store, reader, tmp_path / "staged", prefix, lines.append)
            return mounts.enter_context(serving(tree, tmp_path / "mount", lines)), tree

        yield write


@pytest.fixture
def attempt(tmp_path: Path) -> Iterator[AttemptMounts]:
    """Mounts of a folder store by a mount process; ended and swept afterwards."""
    made = AttemptMounts(tmp_path)
    yield made
    made.close()
    if made.pid:
        _started.append(made.pid)
        made.ended()
    assert kernel.sweep(tmp_path / "mounts") == []
