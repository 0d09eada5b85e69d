import os
from hashlib import sha256

import pytest

from runyard.core.errors import StorageFull
from runyard.storage.blobs.logs import FileLogStore
from runyard.storage.blobs.store import FileBlobStore
from runyard.testing.small_disk import mounted


@pytest.fixture
def disk(tmp_path):
    with mounted(tmp_path / "small", megabytes=8) as place:
        yield place


@pytest.mark.parametrize("sizes", [[20 << 20], [900_000] * 20], ids=["one large", "many small"])
def test_files_that_do_not_fit_leave_nothing_behind(disk, tmp_path, sizes):
    store = FileBlobStore(disk / "blobs")
    paths = [tmp_path / str(number) for number in range(len(sizes))]
    for path, size in zip(paths, sizes, strict=True):
        path.write_bytes(os.urandom(size))
    with pytest.raises(StorageFull, match="is full") as refused:
        store.put_files(paths)
    assert "runyard gc" in refused.value.hint
    assert list((disk / "blobs" / "incoming").iterdir()) == []
    small = b"still room"
    store.put(sha256(small).hexdigest(), [small])


def test_bytes_that_do_not_fit_leave_nothing_behind(disk):
    store = FileBlobStore(disk / "blobs")
    chunks = [os.urandom(1 << 20) for _ in range(10)]
    name = sha256(b"".join(chunks)).hexdigest()
    with pytest.raises(StorageFull):
        store.put(name, chunks)
    assert store.missing([name]) == [name]
    assert list((disk / "blobs" / "incoming").iterdir()) == []


def test_a_log_keeps_what_it_acknowledged(disk):
    store = FileLogStore(disk / "logs")
    end = store.append("r1", "a.txt", 0, bytes(1 << 20))
    with pytest.raises(StorageFull):
        store.append("r1", "a.txt", end, bytes(20 << 20))
    assert store.size("r1", "a.txt") == end
    assert store.append("r1", "a.txt", end, b"more") == end + 4
