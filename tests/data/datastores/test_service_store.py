import itertools
import json
import os
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runyard.client import ServiceClient
from runyard.core.errors import AccessDenied, AlreadyExists, DataFailed, StorageFull, Unreachable
from runyard.core.ports.data import BatchReader, BatchWriter, DataStore
from runyard.core.records.data import NetworkRules, StoreAccess
from runyard.data.datastores import open_store
from runyard.testing.data_store_suite import DataStoreSuite
from runyard.testing.small_disk import mounted
from tests.open_service import OpenService, serving_outside
from tests.servers.gateway import Gateway

pytestmark = pytest.mark.slow

QUICK = NetworkRules(retry_seconds=2.0, silence_seconds=5.0)
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenService]:
    with serving_outside(tmp_path_factory.mktemp("outside")) as served:
        yield served


@pytest.fixture
def access(outside: OpenService, tmp_path_factory: pytest.TempPathFactory) -> StoreAccess:
    """The own datastore of a fresh workspace, as a node elsewhere reaches it."""
    workspace = f"space{next(_numbers)}"
    outside.owner.put(f"/workspaces/{workspace}", {"exist_ok": True})
    home = outside.node_home(tmp_path_factory.mktemp("node"))
    token = outside.facts["token"]
    return StoreAccess("service", f"{workspace}/workspaceblobstore", {"home": str(home)}, {"token": token})


@pytest.fixture
def gateway(access: StoreAccess) -> Iterator[Gateway]:
    """Between the node and the service."""
    made = Gateway(int(_facts(access)["url"].rpartition(":")[2]))
    yield made
    made.close()


class TestServiceStore(DataStoreSuite):
    @pytest.fixture
    def store(self, access: StoreAccess) -> DataStore:
        return open_store(access, QUICK)


def test_what_breaks_off_is_taken_up_where_it_broke(access: StoreAccess, gateway: Gateway, tmp_path: Path) -> None:
    source, content = tmp_path / "source", os.urandom(1 << 20) * 24
    source.write_bytes(content)
    stored = open_store(access, QUICK).put("large", source, overwrite=True, progress=_quiet)
    breaks = 0

    def break_off() -> None:
        nonlocal breaks
        breaks += 1
        gateway.once_after(7 << 20, break_off)
        gateway.break_off()

    gateway.once_after(7 << 20, break_off)
    heard: list[int] = []
    open_store(_through(access, gateway.port), QUICK).fetch(stored, tmp_path / "target", heard.append)
    assert (tmp_path / "target").read_bytes() == content
    assert sum(heard) == len(content)
    assert breaks >= 3


def test_a_file_whose_storing_was_not_answered_is_not_taken_for_anothers(
    access: StoreAccess, gateway: Gateway, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"mine")
    store = open_store(_through(access, gateway.port), QUICK)
    assert list(store.list()) == []
    gateway.lose_next_answer()
    assert store.put("a", source, overwrite=False, progress=_quiet).size == 4
    source.write_bytes(b"other")
    with pytest.raises(AlreadyExists):
        open_store(access, QUICK).put("a", source, overwrite=False, progress=_quiet)


def test_a_full_disk_of_the_reader_is_told_at_once(access: StoreAccess, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(bytes(24 << 20))
    store = open_store(access, QUICK)
    stored = store.put("large", source, overwrite=True, progress=_quiet)
    with mounted(tmp_path / "small", 16) as place, pytest.raises(StorageFull, match="small"):
        store.fetch(stored, place / "target", _quiet)


def test_a_service_that_is_away_is_waited_for_and_then_named(access: StoreAccess) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        gone = _through(access, nobody.getsockname()[1])
        with pytest.raises(Unreachable, match="workspaceblobstore"):
            open_store(gone, replace(QUICK, retry_seconds=0.3)).stat("a")


def test_a_service_that_is_not_trusted_is_not_asked_twice(access: StoreAccess, outside: OpenService) -> None:
    stranger = replace(access, options={"url": outside.url})
    with pytest.raises(DataFailed, match="RUNYARD_CA"):
        open_store(stranger, QUICK).stat("a")


def test_a_wrong_token_is_refused_at_once(access: StoreAccess) -> None:
    with pytest.raises(AccessDenied):
        open_store(replace(access, secrets={"token": "wrong"}), QUICK).stat("a")


def test_many_small_files_come_and_go_in_few_requests(
    access: StoreAccess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_of_service, answer = [], ServiceClient.open
    monkeypatch.setattr(ServiceClient, "open", lambda *given: asked_of_service.append(given[1]) or answer(*given))
    paths = [f"many/{number} ü" for number in range(1200)]
    for number, path in enumerate(paths):
        (tmp_path / str(number)).write_bytes(path.encode())
    store = open_store(access, QUICK)
    assert isinstance(store, BatchReader)
    assert isinstance(store, BatchWriter)
    stored = store.put_many(
        [(path, tmp_path / str(number)) for number, path in enumerate(paths)], overwrite=False, progress=_quiet
    )
    assert [file.path for file in stored] == paths
    asked = [(file.path, file.size or 0, file.etag) for file in stored]
    asked[7] = (asked[7][0], asked[7][1], "another")
    asked[9] = ("none", 1, "")
    read = {number: bytes(data) for number, data in store.read_many(asked)}
    assert read == {number: path.encode() for number, path in enumerate(paths) if number not in (7, 9)}
    assert len(asked_of_service) < 10


def test_a_small_file_that_is_there_stops_the_many(access: StoreAccess, tmp_path: Path) -> None:
    (tmp_path / "new").write_bytes(b"new")
    store = open_store(access, QUICK)
    store.put("b", tmp_path / "new", overwrite=True, progress=_quiet)
    (tmp_path / "new").write_bytes(b"newer")
    assert isinstance(store, BatchWriter)
    with pytest.raises(AlreadyExists, match="'b'"):
        store.put_many([("a", tmp_path / "new"), ("b", tmp_path / "new")], overwrite=False, progress=_quiet)
    assert bytes(store.read("b", 0, 3)) == b"new"


def _facts(access: StoreAccess) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((Path(access.options["home"]) / "service.json").read_text())
    return facts


def _through(access: StoreAccess, port: int) -> StoreAccess:
    """The same over another port of this machine."""
    return replace(access, options={"url": f"https://127.0.0.1:{port}", "ca": _facts(access)["ca"]})


def _quiet(size: int) -> None:
    pass
