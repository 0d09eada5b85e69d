"""Stores that refuse, are not there, go away and come back."""

import dataclasses
import os
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runyard.core.errors import AccessDenied, AlreadyExists, InvalidArgument, NotFound, Unreachable
from runyard.core.ports.data import DataStore
from runyard.core.records.data import NetworkRules, StoreAccess, StoredFile
from runyard.data.datastores import open_store
from tests.servers.azurite_server import ACCOUNT, AzuriteServer
from tests.servers.gateway import Gateway

pytestmark = pytest.mark.servers

LARGE = os.urandom(1 << 20) * 24
PATIENT = NetworkRules(retry_seconds=60)
HASTY = NetworkRules(retry_seconds=1)


@pytest.fixture(params=["azurite_access", "s3_access"])
def access(request: pytest.FixtureRequest) -> StoreAccess:
    found: StoreAccess = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.write_bytes(LARGE)
    return path


def quiet(count: int) -> None:
    pass


def questions(store: DataStore, folder: Path) -> list[Callable[[], Any]]:
    (folder / "small").write_bytes(b"1")
    return [
        lambda: list(store.list()),
        lambda: store.stat("a"),
        lambda: store.read("a", 0, 1),
        lambda: store.fetch(StoredFile("a", None), folder / "target", quiet),
        lambda: store.put("a", folder / "small", overwrite=True, progress=quiet),
        lambda: store.put("a", folder / "small", overwrite=False, progress=quiet),
        lambda: store.delete("a"),
    ]


def test_wrong_credentials_are_refused_at_once(access: StoreAccess, source: Path, tmp_path: Path) -> None:
    wrong = {name: secret[::-1] if name != "account_key" else "d3Jvbmc=" for name, secret in access.secrets.items()}
    store = open_store(dataclasses.replace(access, secrets=wrong), PATIENT)
    begun = time.monotonic()
    for ask in [*questions(store, tmp_path), lambda: store.put("a", source, overwrite=True, progress=quiet)]:
        with pytest.raises(AccessDenied, match="credentials") as refusal:
            ask()
        told = "".join(traceback.format_exception(refusal.value))
        assert not [secret for secret in wrong.values() if secret in told]
    assert time.monotonic() - begun < 10


def test_a_container_that_is_not_there_is_named(access: StoreAccess, source: Path, tmp_path: Path) -> None:
    store = open_store(dataclasses.replace(access, root="not-there/folder"), PATIENT)
    begun = time.monotonic()
    for ask in [*questions(store, tmp_path), lambda: store.put("a", source, overwrite=True, progress=quiet)]:
        with pytest.raises(NotFound, match=r"There is no (bucket|container) 'not-there'"):
            ask()
    assert time.monotonic() - begun < 10


def test_a_server_that_does_not_answer_is_given_up_on_in_time(
    access: StoreAccess, closed_port: int, tmp_path: Path
) -> None:
    gone = {**access.options, "endpoint": f"http://127.0.0.1:{closed_port}"}
    store = open_store(dataclasses.replace(access, options=gone), HASTY)
    for ask in questions(store, tmp_path):
        begun = time.monotonic()
        with pytest.raises(Unreachable, match="refuses connections"):
            ask()
        assert 0.5 < time.monotonic() - begun < 5


def test_a_shared_access_signature_opens_what_it_allows(
    azurite: AzuriteServer, azurite_access: StoreAccess, source: Path
) -> None:
    writer = open_store(signed(azurite_access, f"?{azurite.account_sas()}"), PATIENT)
    stored = writer.put("a", source, overwrite=False, progress=quiet)
    reader = open_store(signed(azurite_access, azurite.account_sas("rl")), PATIENT)
    assert [file.etag for file in reader.list()] == [stored.etag]
    assert bytes(reader.read("a", 5, 5, etag=stored.etag)) == LARGE[5:10]
    with pytest.raises(AccessDenied, match="credentials"):
        reader.put("b", source, overwrite=True, progress=quiet)


def test_an_expired_signature_is_refused_and_not_told(azurite: AzuriteServer, azurite_access: StoreAccess) -> None:
    expired = azurite.account_sas(expiry="2020-01-01T00:00:00Z")
    store = open_store(signed(azurite_access, expired), PATIENT)
    for ask in (lambda: list(store.list()), lambda: store.read("a", 0, 1)):
        with pytest.raises(AccessDenied) as refusal:
            ask()
        told = "".join(traceback.format_exception(refusal.value))
        assert "sig=" not in told
        assert expired[-20:] not in told


def test_credentials_of_the_process_open_nothing(
    azurite: AzuriteServer, azurite_access: StoreAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", azurite.key)
    monkeypatch.setenv("AZURE_STORAGE_SAS_KEY", azurite.account_sas())
    anonymous = dataclasses.replace(azurite_access, secrets={})
    with pytest.raises(AccessDenied):
        list(open_store(anonymous, PATIENT).list())


def test_a_session_token_of_the_process_is_not_sent(s3_access: StoreAccess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of somebody else")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    assert list(open_store(s3_access, HASTY).list()) == []


def test_a_store_below_a_prefix_sees_nothing_else(access: StoreAccess, tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(b"1")
    whole = open_store(access, PATIENT)
    part = open_store(dataclasses.replace(access, root=f"{access.root}/part/one"), PATIENT)
    for path in ("part/one/a", "part/one-more", "part/two/a"):
        whole.put(path, tmp_path / "small", overwrite=True, progress=quiet)
    assert [file.path for file in part.list()] == ["a"]
    part.put("b/c", tmp_path / "small", overwrite=True, progress=quiet)
    assert [file.path for file in whole.list("part/one/")] == ["part/one/a", "part/one/b/c"]


def test_empty_objects_that_stand_for_folders_are_no_files(
    azurite: AzuriteServer, azurite_access: StoreAccess, tmp_path: Path
) -> None:
    (tmp_path / "small").write_bytes(b"1")
    store = open_store(azurite_access, PATIENT)
    for path in ("folder/file", "folder-b", "empty"):
        store.put(path, tmp_path / "small", overwrite=True, progress=quiet)
    azurite.put_blob(azurite_access.root, "folder/")
    assert [file.path for file in store.list()] == ["empty", "folder-b", "folder/file"]


def test_an_object_whose_name_is_no_path_is_named(azurite: AzuriteServer, azurite_access: StoreAccess) -> None:
    azurite.put_blob(azurite_access.root, "good/a")
    azurite.put_blob(azurite_access.root, "bad//name")
    store = open_store(azurite_access, PATIENT)
    with pytest.raises(InvalidArgument, match="bad//name"):
        list(store.list())
    assert [file.path for file in store.list("good/")] == ["good/a"]


@pytest.fixture
def fragile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzuriteServer]:
    """One to be killed."""
    server = AzuriteServer(tmp_path_factory.mktemp("fragile"))
    server.start()
    server.make_container("data")
    server.settle()
    yield server
    server.kill()


@pytest.fixture
def gateway(fragile: AzuriteServer) -> Iterator[Gateway]:
    made = Gateway(fragile.port)
    yield made
    made.close()


def through(gateway: Gateway, server: AzuriteServer, rules: NetworkRules) -> DataStore:
    options = {"account_name": ACCOUNT, "endpoint": f"http://127.0.0.1:{gateway.port}"}
    return open_store(StoreAccess("azure", "data", options, {"account_key": server.key}), rules)


def test_a_read_goes_on_when_the_server_is_killed_in_its_middle_and_comes_back(
    fragile: AzuriteServer, gateway: Gateway, source: Path, tmp_path: Path
) -> None:
    store = through(gateway, fragile, PATIENT)
    stored = store.put("a", source, overwrite=True, progress=quiet)
    fragile.settle()

    kills: list[float] = []

    def kill_and_restart() -> None:
        kills.append(time.monotonic())
        fragile.kill()
        fragile.start()

    gateway.once_after(len(LARGE) // 2, kill_and_restart)
    assert bytes(store.read("a", 0, len(LARGE), etag=stored.etag)) == LARGE
    gateway.once_after(len(LARGE) // 2, kill_and_restart)
    counted: list[int] = []
    store.fetch(stored, tmp_path / "target", counted.append)
    assert (tmp_path / "target").read_bytes() == LARGE
    assert sum(counted) == len(LARGE)
    assert len(kills) == 2


def test_a_read_fails_in_time_when_the_server_is_killed_for_good(
    fragile: AzuriteServer, gateway: Gateway, source: Path, tmp_path: Path
) -> None:
    store = through(gateway, fragile, HASTY)
    stored = store.put("a", source, overwrite=True, progress=quiet)
    gateway.once_after(len(LARGE) // 2, fragile.kill)
    begun = time.monotonic()
    with pytest.raises(Unreachable, match="container 'data'"):
        store.fetch(stored, tmp_path / "target", quiet)
    assert time.monotonic() - begun < 10
    assert not (tmp_path / "target").exists()


def test_a_file_is_put_when_the_server_comes_back(fragile: AzuriteServer, tmp_path: Path, source: Path) -> None:
    (tmp_path / "small").write_bytes(b"1")
    options = {"account_name": ACCOUNT, "endpoint": fragile.endpoint}
    store = open_store(StoreAccess("azure", "data", options, {"account_key": fragile.key}), PATIENT)
    fragile.kill()
    restart = threading.Thread(target=fragile.start)
    restart.start()
    try:
        counted: list[int] = []
        store.put("large", source, overwrite=True, progress=counted.append)
        store.put("small", tmp_path / "small", overwrite=False, progress=quiet)
    finally:
        restart.join()
    assert sum(counted) == len(LARGE)
    assert [(file.path, file.size) for file in store.list()] == [("large", len(LARGE)), ("small", 1)]


def test_a_file_is_created_though_the_answer_is_lost(
    azurite: AzuriteServer, azurite_access: StoreAccess, tmp_path: Path
) -> None:
    (tmp_path / "small").write_bytes(b"1")
    gateway = Gateway(azurite.port)
    try:
        behind = {**azurite_access.options, "endpoint": f"http://127.0.0.1:{gateway.port}"}
        store = open_store(dataclasses.replace(azurite_access, options=behind), PATIENT)
        gateway.lose_next_answer()
        stored = store.put("a", tmp_path / "small", overwrite=False, progress=quiet)
        assert stored.etag == store.stat("a").etag
        with pytest.raises(AlreadyExists):
            store.put("a", tmp_path / "small", overwrite=False, progress=quiet)
    finally:
        gateway.close()


def test_a_silent_server_is_given_up_on(tmp_path: Path, silent_port: int) -> None:
    rules = NetworkRules(retry_seconds=1, silence_seconds=1)
    keys = {"access_key_id": "a", "secret_access_key": "b"}
    store = open_store(StoreAccess("s3", "data", {"endpoint": f"http://127.0.0.1:{silent_port}"}, keys), rules)
    begun = time.monotonic()
    with pytest.raises(Unreachable):
        store.read("a", 0, 1)
    assert time.monotonic() - begun < 10


def signed(access: StoreAccess, token: str) -> StoreAccess:
    return dataclasses.replace(access, secrets={"sas_token": token})
