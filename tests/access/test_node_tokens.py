"""A node's token does what its attempt needs, for as long as that attempt is the one of its run."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from runyard.access.tokens import Tokens
from runyard.core.records.runs import AttemptId
from runyard.server.app import ROUTERS
from tests.attempts import node_of
from tests.server.operations import least, operations
from tests.wire_client import PREFIX, WireClient

BLOBS = "workspaceblobstore"
OPEN_TO_NODES = {
    ("GET", "/health"),
    ("POST", "/attempts/{attempt_id}/report"),
    ("POST", "/attempts/{attempt_id}/outputs"),
    ("GET", "/attempts/{attempt_id}/data"),
    ("GET", "/attempts/{attempt_id}/environment"),
    ("GET", "/attempts/{attempt_id}/packages"),
    ("POST", "/attempts/{attempt_id}/environment"),
    ("GET", "/runs/{run_id}/logs"),
    ("GET", "/runs/{run_id}/logs/{path}"),
    ("POST", "/runs/{run_id}/logs/{path}"),
    ("GET", "/runs/{run_id}/journals"),
    ("POST", "/runs/{run_id}/journals/{journal}"),
    ("GET", "/runs/{run_id}/files"),
    ("GET", "/runs/{run_id}/files/{path}"),
    ("POST", "/runs/{run_id}/files"),
    ("POST", "/runs/{run_id}/files/adopt"),
    ("POST", "/blobs/missing"),
    ("POST", "/blobs/pack"),
    ("PUT", "/blobs/{sha256}"),
    ("GET", "/blobs/{sha256}"),
    ("GET", "/workspaces/{workspace}/datastores/{name}/files"),
    ("GET", "/workspaces/{workspace}/datastores/{name}/files/{path}"),
    ("HEAD", "/workspaces/{workspace}/datastores/{name}/files/{path}"),
    ("PUT", "/workspaces/{workspace}/datastores/{name}/files/{path}"),
    ("DELETE", "/workspaces/{workspace}/datastores/{name}/files/{path}"),
    ("GET", "/workspaces/{workspace}/datastores/{name}/stat/{path}"),
    ("POST", "/workspaces/{workspace}/datastores/{name}/read-many"),
    ("POST", "/workspaces/{workspace}/datastores/{name}/write-many"),
}
WHOEVER = {("GET", "/health"), ("POST", "/blobs/missing"), ("POST", "/blobs/pack")}
"""Those of them whose address names nobody."""


def every_route() -> Iterator[tuple[str, str]]:
    return ((route.method, re.sub(r":\w+}", "}", route.path)) for routes in ROUTERS for route in routes.all)


def filled(path: str, run_id: str, workspace: str) -> str:
    """The address of that route for the things of a run."""
    names = {"run_id": run_id, "attempt_id": f"{run_id}.1", "workspace": workspace, "name": BLOBS, "path": "out/x"}
    return re.sub(r"\{(\w+)[^}]*\}", lambda found: names.get(found[1], "x"), path)


def body_of(method: str, path: str) -> Any:
    """The smallest body that the route takes."""
    for one in operations():
        if (one.method, one.path) == (method, path) and one.body is not None:
            return least(one.body)
    return {}


@pytest.fixture
def node(client: WireClient) -> WireClient:
    """Of a run `mine-SPACE` that writes to out/ of its workspace's datastore."""
    return _node(client, f"mine-{client.workspace}")


def _node(client: WireClient, run_id: str) -> WireClient:
    place = {"dataPath": {"datastoreName": BLOBS, "relativePath": "out"}}
    client.interactive_run(run_id, definition={"outputData": {"o": {"outputLocation": place, "mechanism": "Mount"}}})
    return node_of(client, run_id)


def _mine(client: WireClient) -> str:
    return f"mine-{client.workspace}"


class TestReach:
    def test_routes_that_a_node_does_not_need_are_closed_to_it(self, client, node):
        for method, path in every_route():
            answer = node.ask(method, PREFIX + filled(path, _mine(client), client.workspace), body_of(method, path))
            is_closed = answer.status == 403 and b" may not " in answer.body
            assert is_closed is ((method, path) not in OPEN_TO_NODES), (method, path, answer.status, answer.body)

    def test_what_is_another_runs_is_closed_to_it(self, client, node):
        other = f"other-{client.workspace}"
        client.put("/workspaces/elsewhere", {"exist_ok": True})
        client.interactive_run(other)
        for method, path in sorted(set(every_route()) & OPEN_TO_NODES - WHOEVER):
            if "sha256" in path:
                continue
            answer = node.ask(method, PREFIX + filled(path, other, "elsewhere"), body_of(method, path))
            named_in_body = path.endswith("-many")
            allowed = {403, 200, 400} if named_in_body else {403}
            assert answer.status in allowed, (method, path, answer.body)
        many = f"/workspaces/elsewhere/datastores/{BLOBS}"
        assert node.refusal("POST", f"{many}/read-many", {"files": [["a", 1, ""]]})["status"] == 403
        assert node.refusal("POST", f"{many}/write-many", b"out/a 1\nx")["status"] == 403
        assert client.get(f"{many}/files") == {"files": []}

    def test_it_writes_where_its_run_writes_and_nowhere_else(self, client, node):
        store = f"{client.here}/datastores/{BLOBS}"
        node.put(f"{store}/files/out/a", b"x")
        node.post(f"{store}/write-many", b"out/b 1\ny")
        for path in ("other", "outside/a", "a/out/b"):
            assert node.refusal("PUT", f"{store}/files/{path}", b"x")["status"] == 403
            assert node.refusal("POST", f"{store}/write-many", f"{path} 1\nx".encode())["status"] == 403
        assert node.refusal("PUT", f"{client.here}/datastores/workspacefilestore/files/out/a", b"x")["status"] == 403
        assert [file["path"] for file in client.get(f"{store}/files")["files"]] == ["out/a", "out/b"]
        node.delete(f"{store}/files/out/a")

    def test_a_path_that_leads_up_is_no_way_out(self, client, node):
        store = f"{client.here}/datastores/{BLOBS}"
        client.put(f"{store}/files/secret", b"x")
        for path in ("out/../secret", "out/%2e%2e/secret", "out//../secret"):
            assert node.ask("GET", f"{PREFIX}{store}/files/{path}").status in (400, 401, 404)
            assert node.ask("PUT", f"{PREFIX}{store}/files/{path}?overwrite=1", b"y").status in (400, 401, 404)
        assert client.read(f"{store}/files/secret") == b"x"

    def test_a_listing_shows_it_nothing_but_its_own(self, client, node):
        store = f"{client.here}/datastores/{BLOBS}"
        for path in ("out/a", "outlook", "other"):
            client.put(f"{store}/files/{path}", b"x")
        listed = node.ask("GET", f"{PREFIX}{store}/files?prefix=out&lines=1")
        assert [line for line in listed.body.splitlines() if b"outlook" in line] == []
        assert listed.body.count(b"\n") == 1
        assert [file["path"] for file in node.get(f"{store}/files?prefix=out")["files"]] == ["out/a"]
        assert node.refusal("GET", f"{store}/files")["status"] == 403

    def test_it_reads_its_datasets_and_does_not_write_them(self, client):
        store = f"{client.here}/datastores/{BLOBS}"
        for path in ("pets/a.jpg", "pets/deep/b.jpg", "petsitters", "other"):
            client.put(f"{store}/files/{path}", b"x")
        body = {"type": "file", "sources": [{"datastore": BLOBS, "path": "pets/**/*.jpg"}]}
        saved = client.post(f"{client.here}/datasets", {"name": "", "body": body})
        run_id = f"reads-{client.workspace}"
        asked = {"p": {"dataLocation": {"dataset": {"id": saved["id"]}}, "mechanism": "Mount"}}
        client.interactive_run(run_id, definition={"data": asked})
        node = node_of(client, run_id)
        assert node.read(f"{store}/files/pets/deep/b.jpg") == b"x"
        assert node.refusal("GET", f"{store}/files/petsitters")["status"] == 403
        assert node.refusal("GET", f"{store}/files/other")["status"] == 403
        assert node.refusal("PUT", f"{store}/files/pets/a.jpg?overwrite=1", b"y")["status"] == 403
        assert node.refusal("DELETE", f"{store}/files/pets/a.jpg")["status"] == 403

    def test_it_delivers_for_the_runs_that_its_script_has_started(self, client, node):
        client.interactive_run(f"child-{client.workspace}", parent_id=_mine(client))
        assert node.post(f"/runs/child-{client.workspace}/logs/a.txt?offset=0", b"x") == {"offset": 1}


def test_a_journal_of_another_run_is_forbidden(client, node):
    client.interactive_run("stranger-of-journals")
    name = "/runs/stranger-of-journals/journals/stranger-of-journals~0-1-a"
    refused = node.refusal("POST", f"{name}?offset=0", b'["m","a",1,null,1.0]\n')
    assert (refused["status"], refused["code"]) == (403, "forbidden")


class TestEnd:
    def test_nothing_is_taken_from_it_once_the_run_has_ended(self, client, node):
        run_id = _mine(client)
        assert node.post(f"/runs/{run_id}/logs/a.txt?offset=0", b"x") == {"offset": 1}
        client.patch(f"/runs/{run_id}", {"status": "Completed"})
        for method, path in sorted(set(every_route()) & OPEN_TO_NODES):
            answer = node.ask(method, PREFIX + filled(path, run_id, client.workspace), body_of(method, path))
            if (method, path) == ("GET", "/health"):
                assert answer.status == 200
            elif path.endswith("/report"):
                assert answer.status != 409
            else:
                assert answer.status == 409, (method, path, answer.body)
                assert method == "HEAD" or answer.json["code"] == "attempt_over"
        report = node.post(f"/attempts/{run_id}.1/report", {"state": "running"})
        assert report["cancel"] is True
        assert client.read(f"/runs/{run_id}/files/a.txt") == b"x"

    def test_an_upload_that_was_going_on_is_not_stored(self, client, node):
        store = f"{client.here}/datastores/{BLOBS}"
        size = 3 << 20
        with node.half_sent(f"{store}/files/out/late", size) as connection:
            client.patch(f"/runs/{_mine(client)}", {"status": "Failed"})
            connection.send(bytes(size - size // 2))
            answer = connection.getresponse()
            assert (answer.status, b"attempt_over" in answer.read()) == (409, True)
        assert client.get(f"{store}/files") == {"files": []}

    def test_the_token_of_an_attempt_that_never_was_opens_nothing(self, client, node):
        run_id = _mine(client)
        for attempt in (f"{run_id}.2", f"{run_id}.", f"{run_id}.1-1", f"{run_id}.01", f"no-run-{run_id}.1"):
            stranger = client.with_token(Tokens(client.token).node_token(AttemptId(attempt)))
            assert stranger.ask("GET", f"{PREFIX}/runs/{run_id}/logs").status in (401, 409), attempt
