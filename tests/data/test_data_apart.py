"""The data of a run on a node that shares no files with the service."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runyard.access.tokens import Tokens
from runyard.core.errors import AccessDenied, AttemptOver
from runyard.core.records.data import DataForAttempt
from runyard.core.records.runs import AttemptId
from runyard.data.transfers import BlockCache, download, upload
from runyard.node.data.store_access import LazyStores, request_data
from runyard.node.service_client import connect_to_service
from tests.attempts import begin_attempt
from tests.open_service import OpenService, serving_outside
from tests.wire_client import WireClient

pytestmark = pytest.mark.slow

BLOBS = "workspaceblobstore"
PLACE = {"dataPath": {"datastoreName": BLOBS, "relativePath": "out"}}


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenService]:
    with serving_outside(tmp_path_factory.mktemp("far")) as served:
        yield served


class Apart:
    """A node of a run that reads `pets` and writes to out/."""

    def __init__(self, far: OpenService, folder: Path) -> None:
        self.owner = WireClient(far.url, far.facts["token"], folder.name.replace("_", "-"), far.certificate.authority)
        self.owner.put(self.owner.here, {"exist_ok": True})
        for number in range(300):
            self.owner.put(f"{self.owner.here}/datastores/{BLOBS}/files/pets/{number:03}", str(number).encode())
        self.run_id = f"run-{self.owner.workspace}"
        self.owner.interactive_run(self.run_id, definition=self._definition())
        attempt = begin_attempt(far.home, self.run_id)
        token = Tokens(far.facts["token"]).node_token(attempt)
        self._home = far.node_home(folder / "node")
        self._client = connect_to_service(self._home, token)

    def data(self, **more: Any) -> DataForAttempt:
        return request_data(self._client, self._home, AttemptId(f"{self.run_id}.1"), shares_files=False, **more)

    def _definition(self) -> dict[str, Any]:
        body = {"type": "file", "sources": [{"datastore": BLOBS, "path": "pets"}]}
        saved = self.owner.post(f"{self.owner.here}/datasets", {"name": "pets", "body": body})
        return {
            "data": {"pets": {"dataLocation": {"dataset": {"id": saved["id"]}}, "mechanism": "Download"}},
            "outputData": {"o": {"outputLocation": PLACE, "mechanism": "Upload"}},
        }


@pytest.fixture
def node(far: OpenService, tmp_path: Path) -> Apart:
    return Apart(far, tmp_path)


def test_a_dataset_comes_whole(node, tmp_path):
    data = node.data()
    files = data.datasets["pets"].files
    cache = BlockCache(tmp_path / "cache", 1 << 30)
    heard: list[int] = []
    try:
        download([(file, tmp_path / "got" / file.path) for file in files], LazyStores(data), cache, heard.append)
    finally:
        cache.close()
    assert [(tmp_path / "got" / f"{number:03}").read_text() for number in range(300)] == [str(n) for n in range(300)]
    assert sum(heard) == sum(len(str(number)) for number in range(300))


def test_outputs_go_to_the_services_disk(node, far, tmp_path):
    store = LazyStores(node.data(stores_only=True))[BLOBS]
    items = []
    for number in range(300):
        source = tmp_path / f"{number}.txt"
        source.write_text(str(number))
        items.append((source, f"out/{number}.txt"))
    large = tmp_path / "large"
    large.write_bytes(bytes(5 << 20))
    stored = upload([*items, (large, "out/large")], store, overwrite=False, progress=lambda size: None)
    assert [file.path for file in stored] == [path for _, path in items] + ["out/large"]
    there = far.home / "datastores" / node.owner.workspace / BLOBS / "out"
    assert (there / "299.txt").read_text() == "299"
    assert (there / "large").stat().st_size == 5 << 20
    with pytest.raises(AccessDenied):
        upload([(large, "elsewhere")], store, overwrite=True, progress=lambda size: None)


def test_a_node_that_was_given_up_reads_and_writes_nothing(node, tmp_path):
    store = LazyStores(node.data())[BLOBS]
    assert bytes(store.read("pets/007", 0, 1)) == b"7"
    node.owner.patch(f"/runs/{node.run_id}", {"status": "Failed"})
    (tmp_path / "late").write_text("late")
    with pytest.raises(AttemptOver):
        store.put("out/late", tmp_path / "late", overwrite=True, progress=lambda size: None)
    with pytest.raises(AttemptOver):
        store.read("pets/007", 0, 1)
    with pytest.raises(AttemptOver):
        node.data()
