"""Uploads that are cut by the death of the client or of the service leave nothing on the disk."""

import hashlib
import http.client
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from runyard.server.lifecycle import start_service
from tests.faults.yard import eventually, kill
from tests.wire_client import WireClient

CONTENT = b"x" * (4 << 20)
HALF = len(CONTENT) // 2
NAME = hashlib.sha256(CONTENT).hexdigest()
SEND_HALF = """
import sys, time
from http.client import HTTPConnection
host, path, token, half, whole = sys.argv[1:]
connection = HTTPConnection(host)
connection.putrequest("PUT", path)
connection.putheader("Authorization", "Bearer " + token)
connection.putheader("Content-Length", whole)
connection.endheaders(b"x" * int(half))
time.sleep(600)
"""


@pytest.fixture
def started(home: Path) -> dict[str, Any]:
    facts = start_service(home, keep=True)
    WireClient(facts["url"], facts["token"]).put("/workspaces/space", {"exist_ok": True})
    return facts


@pytest.fixture(params=["/api/v1/blobs/" + NAME, "/api/v1/workspaces/space/datastores/workspaceblobstore/files/a.bin"])
def sender(request, started: dict[str, Any], home: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A client that has sent half of a file."""
    where = [urlsplit(started["url"]).netloc, request.param, started["token"], str(HALF), str(len(CONTENT))]
    process = subprocess.Popen([sys.executable, "-c", SEND_HALF, *where])
    try:
        eventually(lambda: any(_sizes(home, started["pid"])), "the first half of the upload", 30)
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_client_that_is_killed_leaves_no_part(sender, started, home):
    sender.send_signal(signal.SIGKILL)
    eventually(lambda: not _sizes(home, started["pid"]), "the removal of the part", 30)


def test_a_service_that_is_killed_leaves_no_part_behind_its_next_start(sender, started, home):
    kill(started["pid"])
    again = start_service(home, keep=True)
    assert _sizes(home, again["pid"]) == []


def test_an_upload_that_is_slow_survives_gc(started, home):
    connection = http.client.HTTPConnection(urlsplit(started["url"]).netloc)
    connection.putrequest("PUT", f"/api/v1/blobs/{NAME}")
    connection.putheader("Authorization", f"Bearer {started['token']}")
    connection.putheader("Content-Length", str(len(CONTENT)))
    connection.endheaders(CONTENT[:HALF])
    eventually(lambda: any(_sizes(home, started["pid"])), "the first half of the upload", 30)
    assert (
        subprocess.run([sys.executable, "-c", REMOVE, str(home)], capture_output=True, text=True, check=True).stdout
        == "(0, 0)\n"
    )
    connection.send(CONTENT[HALF:])
    assert connection.getresponse().status == 200
    connection.close()


REMOVE = """
import pathlib, sys
from runyard.storage.blobs.store import FileBlobStore
print(FileBlobStore(pathlib.Path(sys.argv[1], "blobs")).remove_abandoned())
"""


def _sizes(home: Path, pid: int) -> list[int]:
    """Of the files on their way in: below `incoming`, and those without a name that the service has open."""
    named = [path for folder in ("incoming", "blobs/incoming") for path in (home / folder).glob("*")]
    sizes = [path.stat().st_size for path in named]
    with suppress(FileNotFoundError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                target = os.readlink(descriptor)
                if target.startswith(str(home)) and target.endswith(" (deleted)"):
                    sizes.append(os.stat(descriptor).st_size)
    return sizes
