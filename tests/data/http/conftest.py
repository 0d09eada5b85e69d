from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runyard.core.records.data import NetworkRules, StoredFile
from runyard.data.http.store import WebStore
from tests.data.http.servers import Server

QUICK = {"silence_seconds": 0.3, "retry_seconds": 0.5}


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def open_web() -> Iterator[Callable[..., WebStore]]:
    """Opens stores with short time limits, and closes them."""
    opened: list[WebStore] = []

    def open_one(base: str = "", **rules: object) -> WebStore:
        opened.append(WebStore(NetworkRules(**{**QUICK, **rules}), base))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def web(open_web: Callable[..., WebStore]) -> WebStore:
    return open_web()


@pytest.fixture
def patient(open_web: Callable[..., WebStore]) -> WebStore:
    """For servers that recover."""
    return open_web(retry_seconds=20)


@pytest.fixture
def fetched(tmp_path: Path) -> Callable[[WebStore, str], bytes]:
    """The bytes of an address fetched whole, with nothing left beside them; nothing at all when it fails."""
    folder = tmp_path / "fetched"

    def fetch(store: WebStore, path: str, size: int | None = None, etag: str = "") -> bytes:
        folder.mkdir(exist_ok=True)
        try:
            store.fetch(StoredFile(path, size, etag), folder / "file", lambda count: None)
        except BaseException:
            assert list(folder.iterdir()) == []
            raise
        assert [file.name for file in folder.iterdir()] == ["file"]
        return (folder / "file").read_bytes()

    return fetch
