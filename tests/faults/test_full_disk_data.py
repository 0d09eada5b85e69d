"""Data that a node's disk has no room for, on a small file system of its own."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from azureml.core import Dataset
from azureml.data import OutputFileDatasetConfig
from runyard.testing.small_disk import mounted
from tests.faults.yard import Yard, message_of
from tests.node.data.web_server import WebServer, Zeros

pytestmark = pytest.mark.slow

SIZE_MB = 96
FILLS_AND_READS = """
import os, sys
with open("filler", "wb", buffering=0) as sink:
    try:
        while True:
            sink.write(bytes(1 << 16))
    except OSError:
        pass
with open(sys.argv[1], "rb") as file:
    size = sum(len(piece) for piece in iter(lambda: file.read(1 << 20), b""))
os.remove("filler")
assert size == os.path.getsize(sys.argv[1]) == int(sys.argv[2]), size
"""


@pytest.fixture
def small_yard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Yard]:
    with mounted(tmp_path / "small", SIZE_MB) as place:
        monkeypatch.setenv("RUNYARD_HOME", str(place / "home"))
        (tmp_path / "sources").mkdir()
        yard = Yard(tmp_path / "sources")
        yield yard
        yard.close()


@pytest.fixture
def server() -> Iterator[WebServer]:
    server = WebServer()
    yield server
    server.close()


def test_a_download_larger_than_the_disk_is_told_and_leaves_the_room_to_others(small_yard: Yard, server) -> None:
    server.pages["/large.bin"] = Zeros(2 * SIZE_MB << 20)
    data = Dataset.File.from_files(f"{server.url}/large.bin")
    run = small_yard.finish("print('never')", arguments=(data.as_named_input("large").as_download(),))
    assert run.get_status() == "Failed"
    assert "'large'" in message_of(run)
    assert re.search("(?i)no space|room|disk", message_of(run))
    small = small_yard.finish("print('there is room')", arguments=(data.as_named_input("large").as_mount(),))
    assert small.get_status() == "Completed", message_of(small)


def test_a_mount_is_read_to_its_end_though_nothing_can_be_kept(small_yard: Yard, server) -> None:
    size = 2 * SIZE_MB << 20
    server.pages["/large.bin"] = Zeros(size)
    data = Dataset.File.from_files(f"{server.url}/large.bin").as_named_input("large").as_mount()
    run = small_yard.finish(FILLS_AND_READS, arguments=(data, str(size)))
    assert run.get_status() == "Completed", message_of(run)


def test_an_output_that_the_disk_has_no_room_for_fails_its_writer_alone(small_yard: Yard) -> None:
    store = small_yard.workspace.get_default_datastore()
    out = OutputFileDatasetConfig("out", (store, "out")).register_on_complete("out")
    script = (
        "import os, sys\nwith open(os.path.join(sys.argv[1], 'big'), 'wb') as sink:\n    sink.write(bytes(200 << 20))"
    )
    run = small_yard.finish(script, arguments=(out,))
    assert run.get_status() == "Failed"
    assert re.search("(?i)no space", message_of(run))
    assert "out" not in Dataset.get_all(small_yard.workspace)
    os.unlink(small_yard.home / "datastores/faults/workspaceblobstore/out/big")
    assert small_yard.finish("print('there is room')").get_status() == "Completed"
