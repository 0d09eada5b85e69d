import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from runyard.core.records.data import NetworkRules, StoreAccess
from runyard.data.datastores import open_store
from tests.data.mounting.attempt_mounts import AttemptMounts
from tests.data.mounting.children import in_new_program
from tests.servers.azurite_server import ACCOUNT, AzuriteServer

pytestmark = pytest.mark.servers

LARGE = bytes(range(256)) * 50_000


def write_as_scripts_do(root: Path, access: StoreAccess) -> None:
    attempt = AttemptMounts(root, access)
    out = attempt.writable(prefix="runs/1")
    attempt.start(out)
    mount = out.mount_point
    (mount / "checkpoints").mkdir()
    (mount / "checkpoints" / "tmp").write_bytes(LARGE)
    os.replace(mount / "checkpoints" / "tmp", mount / "checkpoints" / "last ünï")
    for line in ("one\n", "two\n"):
        with open(mount / "log", "a") as log:
            log.write(line)
    (mount / "scratch").write_text("x")
    (mount / "scratch").unlink()
    assert sorted(os.listdir(mount)) == ["checkpoints", "log"]
    assert (mount / "checkpoints" / "last ünï").read_bytes() == LARGE
    with pytest.raises(FileExistsError):
        open(mount / "log", "x").close()
    attempt.close()
    assert attempt.ended() == 0
    assert attempt.told()["lost"] == []


def read_as_scripts_do(root: Path, access: StoreAccess) -> None:
    attempt = AttemptMounts(root, access)
    there = attempt.writable(prefix="")
    attempt.start(there)
    assert (there.mount_point / "runs" / "1" / "checkpoints" / "last ünï").read_bytes() == LARGE
    assert (there.mount_point / "runs" / "1" / "log").read_text() == "one\ntwo\n"
    attempt.close()
    assert attempt.ended() == 0


@pytest.mark.parametrize("kind", ["s3_access", "azurite_access"])
def test_what_a_script_writes_on_an_object_store_is_there_for_the_next(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    access: StoreAccess = request.getfixturevalue(kind)
    for folder, script in (("first", write_as_scripts_do), ("second", read_as_scripts_do)):
        (tmp_path / folder).mkdir()
        in_new_program(script, tmp_path / folder, access)
    stored = {file.path: file.size for file in open_store(access, NetworkRules()).list()}
    assert stored == {"runs/1/checkpoints/last ünï": len(LARGE), "runs/1/log": 8}


def write_while_the_store_is_away(root: Path) -> None:
    server = AzuriteServer(root)
    server.start()
    server.make_container("models")
    server.settle()
    options = {"account_name": ACCOUNT, "endpoint": server.endpoint}
    attempt = AttemptMounts(root, StoreAccess("azure", "models", options, {"account_key": server.key}))
    out = attempt.writable()
    attempt.start(out)
    try:
        with ThreadPoolExecutor(1) as pool, open(out.mount_point / "model", "wb", buffering=0) as model:
            model.write(b"weights")
            server.kill()
            closing = pool.submit(os.fsync, model.fileno())
            server.start()
            closing.result()
        assert (out.mount_point / "model").read_bytes() == b"weights"
        attempt.close()
        assert attempt.ended() == 0
    finally:
        attempt.close()
        server.kill()


def test_a_store_that_goes_away_and_comes_back_loses_no_write(tmp_path: Path) -> None:
    in_new_program(write_while_the_store_is_away, tmp_path)
