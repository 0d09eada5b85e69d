"""Datasets of very many files through the service."""

import os
import time
from pathlib import Path

import pytest

from tests.wire_client import WireClient

pytestmark = pytest.mark.slow

FILES = 100_000 if os.environ.get("RUNYARD_FAULTS") == "full" else 4_000
SECONDS = 60.0
"""Far above the few that it takes: a machine may be busy."""


@pytest.fixture
def many(client: WireClient, tmp_path: Path) -> str:
    """The name of a datastore with that many files in a hundred folders."""
    for folder in range(100):
        (tmp_path / f"{folder:02}").mkdir()
    for number in range(FILES):
        (tmp_path / f"{number % 100:02}" / f"{number}.txt").touch()
    body = {"name": "many", "kind": "folder", "settings": {"folder": str(tmp_path)}}
    client.post(f"{client.here}/datastores", body)
    return "many"


def test_many_files_are_pinned_resolved_and_chosen_from_in_seconds(client, many, tmp_path):
    def body(path: str) -> dict[str, object]:
        return {"type": "file", "sources": [{"datastore": many, "path": path}]}

    began = time.monotonic()
    made = client.post(f"{client.here}/datasets", {"name": "all", "body": body("")})
    assert made["body"]["pin"]["files"] == FILES
    (tmp_path / "00" / "0.txt").write_text("changed")
    resolved = client.post(f"{client.here}/datasets/resolve", {"id": made["id"]})
    assert (len(resolved["files"]), len(resolved["changes"])) == (FILES, 1)
    chosen = client.post(f"{client.here}/datasets/resolve", {"body": body("**/[0-4]?/**/*7.txt")})
    assert len(chosen["files"]) == len([n for n in range(FILES) if n % 100 < 50 and n % 10 == 7])
    assert len(client.get(f"{client.here}/datasets/by-id/{made['id']}/access")["datasets"]["data"]["files"]) == FILES
    assert len(client.get(f"{client.here}/datastores/{many}/files")["files"]) == FILES
    assert time.monotonic() - began < SECONDS


def test_a_source_of_many_addresses_is_refused_when_one_is_gone(client):
    sources = [{"url": f"http://127.0.0.1:9/{number}"} for number in range(FILES // 10)]
    asked = {"body": {"type": "file", "sources": sources}}
    began = time.monotonic()
    assert client.refusal("POST", f"{client.here}/datasets/resolve", asked)["code"] == "unreachable"
    assert time.monotonic() - began < SECONDS
