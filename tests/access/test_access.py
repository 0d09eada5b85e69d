import re
import socket
from urllib.parse import urlsplit

import pytest

from runyard.access.tokens import Tokens
from runyard.server.app import ROOT_ROUTERS, ROUTERS
from tests.attempts import begin_attempt, script_of
from tests.wire_client import PREFIX, WireClient


@pytest.fixture
def tokens(client: WireClient) -> Tokens:
    return Tokens(client.token)


def test_health_names_version_and_wire(client, service):
    answer = client.ask("GET", f"{PREFIX}/health")
    assert answer.headers["x-runyard-wire"] == "1"
    assert answer.json["wire"] == 1
    assert answer.json["pid"] == service["pid"]
    assert answer.json["home"] == service["home"]


def _every_route():
    routes = [(route.method, f"{PREFIX}{route.path}") for routes in ROUTERS for route in routes.all]
    routes += [(route.method, route.path) for routes in ROOT_ROUTERS for route in routes.all]
    return sorted({(method, re.sub(r"\{[^}]*\}", "x", path)) for method, path in routes})


OPEN = {("GET", "/healthz"), ("GET", "/readyz")}
"""For probes, which have no token; test_figures.py says what they tell."""


def test_no_route_answers_without_a_token(client):
    routes = _every_route()
    assert len(routes) > 50
    assert set(routes) >= OPEN
    routes = [route for route in routes if route not in OPEN]
    for method, path in routes:
        for token in ("", "Bearer wrong", "Basic eDp5", "Bearer x.y", "Bearer node.x.1.y"):
            answer = client.ask(method, path, authorization=token)
            assert answer.status == 401, (method, path, token)


def test_a_wrong_host_name_is_refused_even_with_the_token(client):
    refused = client.ask("GET", f"{PREFIX}/health", host="evil.example")
    assert (refused.status, refused.json["code"]) == (401, "unauthorized")
    assert client.ask("GET", f"{PREFIX}/health", host="localhost:1").status == 200


def test_a_runs_token_is_good_until_the_run_has_ended(client):
    client.interactive_run("token-run-1")
    script = script_of(client, "token-run-1")
    assert script.get("/runs/token-run-1")["status"] == "Running"
    script.patch("/runs/token-run-1", {"tags": {"a": "b"}})
    client.patch("/runs/token-run-1", {"status": "Completed"})
    assert script.refusal("GET", "/runs/token-run-1")["code"] == "unauthorized"


def test_a_runs_token_ends_with_its_attempt_though_the_run_goes_on(client, service, tokens):
    client.interactive_run("token-run-5")
    before = client.with_token(tokens.run_token("token-run-5.1"))
    now = client.with_token(tokens.run_token(begin_attempt(service["home"], "token-run-5", 2)))
    assert before.refusal("PATCH", "/runs/token-run-5", {"tags": {"a": "b"}})["code"] == "attempt_over"
    assert before.refusal("GET", client.here)["code"] == "attempt_over"
    now.patch("/runs/token-run-5", {"tags": {"a": "c"}})


def test_a_script_is_no_node_of_its_attempt(client):
    client.interactive_run("token-run-6")
    script = script_of(client, "token-run-6")
    report = {"state": "ended", "outcome": "completed"}
    assert script.refusal("POST", "/attempts/token-run-6.1/report", report)["code"] == "forbidden"


def test_a_runs_token_writes_to_its_own_children_and_to_no_other_run(client):
    client.interactive_run("token-run-2")
    client.interactive_run("stranger-2")
    script = script_of(client, "token-run-2")
    script.interactive_run("child-2", parent_id="token-run-2")
    script.patch("/runs/child-2", {"tags": {"mine": "yes"}})
    assert script.get("/runs/stranger-2")["id"] == "stranger-2"
    assert script.refusal("PATCH", "/runs/stranger-2", {"tags": {"a": "b"}})["status"] == 403
    assert script.refusal("DELETE", "/runs/token-run-2")["status"] == 403


def test_a_runs_token_stays_in_its_workspace(client):
    client.interactive_run("token-run-3")
    client.put("/workspaces/elsewhere", {"exist_ok": True})
    script = script_of(client, "token-run-3")
    assert script.refusal("GET", "/workspaces/elsewhere")["status"] == 403
    assert script.refusal("PUT", "/workspaces/brand-new", {"exist_ok": True})["status"] == 403
    assert script.refusal("DELETE", client.here)["status"] == 403
    assert [space["name"] for space in script.get("/workspaces")["workspaces"]] == [client.workspace]


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/shutdown"), ("POST", "/gc"), ("GET", "/du"), ("POST", "/keep")]
)
def test_only_the_owner_looks_after_the_service(client, method, path):
    client.ask("POST", f"{PREFIX}{client.here}/experiments/probe/runs", {"run_id": "token-run-4", "interactive": True})
    script = script_of(client, "token-run-4")
    assert script.refusal(method, path)["status"] == 403


def test_a_run_named_like_a_node_token_opens_nothing_else(client, tokens):
    assert client.with_token(tokens.run_token("node.node-run-1.1")).refusal("GET", "/health")["status"] == 401


@pytest.mark.parametrize(
    "host", ["localhost:1/workspaces/a/b", "localhost/workspaces/a/b", "localhost:1?x", "localhost#x"]
)
def test_a_host_header_with_a_path_in_it_opens_nothing(client, host):
    client.interactive_run(f"host-{client.workspace}")
    script = script_of(client, f"host-{client.workspace}")
    refused = script.ask("PUT", PREFIX + client.here, {"exist_ok": True, "description": "taken over"}, host=host)
    assert refused.status == 401
    assert script.ask("DELETE", PREFIX + client.here, host=host).status == 401
    assert client.get(client.here)["description"] == ""


@pytest.mark.parametrize("path", ["{0}/", "{0}//", "{0}/.", "{0}/x/..", "{0}%2f", "/{0}", "{0};x", "{0}%3fx", "{0}%00"])
def test_another_spelling_of_a_workspaces_address_opens_nothing(client, path):
    client.interactive_run(f"spelled-{client.workspace}")
    script = script_of(client, f"spelled-{client.workspace}")
    answer = script.ask("DELETE", path.format(PREFIX + client.here))
    assert answer.status in (307, 401, 403, 404, 405), answer.body
    assert client.get(client.here)["name"] == client.workspace


def test_two_host_headers_are_refused(client):
    address = urlsplit(client.url)
    with socket.create_connection((address.hostname, address.port), timeout=20) as connection:
        request = f"GET {PREFIX}/health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\nConnection: close\r\n"
        connection.sendall(f"{request}Authorization: Bearer {client.token}\r\n\r\n".encode())
        assert connection.makefile("rb").readline().split()[1] == b"400"


def test_a_body_nested_too_deep_is_refused(client):
    for opens, closes in ((b"[", b"]"), (b'{"a":', b"}")):
        deep = b'{"name": "deep", "body": {"files": [], "x": %s1%s}}' % (opens * 1000, closes * 1000)
        refused = client.refusal("POST", f"{client.here}/assets/models", deep)
        assert (refused["status"], refused["code"]) == (400, "invalid_argument")
    nested = b'{"name": "deep", "body": {"files": [], "x": %s1%s}}' % (b"[" * 200, b"]" * 200)
    client.post(f"{client.here}/assets/models", nested)
    assert client.get(f"{client.here}/assets/models/deep")["version"] == 1


@pytest.mark.parametrize(
    ("path", "word"),
    [("runs", "tag=x"), ("runs", "property=x"), ("runs", "status=Running"), ("assets/models", "tag=x")],
)
def test_thousands_of_filters_are_refused(client, path, word):
    refused = client.refusal("GET", f"{client.here}/{path}?" + "&".join([word] * 3000))
    assert (refused["status"], refused["code"]) == (400, "invalid_argument")
