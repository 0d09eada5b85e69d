"""A client and a service of different versions still understand each other, or say clearly that they do not."""

import http.client
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import urlsplit

import pytest

from runyard.core.version import API, VERSION
from runyard_sdk.client import Client
from runyard_sdk.errors import NotFound


@pytest.mark.parametrize("path", ["/api/v2/health", "/api/v0/health", "/health", "/api/v1/brand-new-route"])
def test_a_route_of_another_version_is_not_found_in_words_and_names_our_wire(client, path):
    answer = client.ask("GET", path)
    assert (answer.status, answer.json["code"]) == (404, "not_found")
    assert "newer" in answer.json["hint"]
    assert answer.headers["x-runyard-wire"] == "1"


def test_fields_of_a_newer_client_are_ignored(client):
    run = client.interactive_run("newer-client", from_the_future={"a": [1]})
    assert run["status"] == "Running"
    assert client.patch("/runs/newer-client", {"from_the_future": 1})["id"] == "newer-client"
    assert client.put(client.here, {"exist_ok": True, "from_the_future": 1})["name"] == client.workspace


def test_journal_lines_of_a_newer_sdk_do_not_cost_the_others(client):
    client.interactive_run("newer-journal")
    body = b'["brand-new",1,2,3]\n["m","acc",0.5,null,1.0,"one more"]\n["m","acc",0.75,null,1.0]\n'
    assert client.post("/runs/newer-journal/journals/newer-journal~0-1-a", body) == {"offset": len(body)}
    assert client.get("/runs/newer-journal?metrics=1")["metrics"] == {"acc": 0.75}


def test_a_method_that_a_route_does_not_have_is_refused_in_words(client):
    answer = client.ask("PUT", "/api/v1/health")
    assert (answer.status, answer.json["code"]) == (405, "invalid_argument")


def as_sdk(service, api):
    """What a client of that API is told of a route that is not there."""
    address = urlsplit(service["url"])
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=20)
    headers = {"Authorization": f"Bearer {service['token']}", "User-Agent": "runyard-sdk/9.9", "X-Runyard-Api": api}
    connection.request("GET", "/api/v1/brand-new", headers={name: text for name, text in headers.items() if text})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer, text


@pytest.mark.parametrize(
    ("api", "advice"),
    [(str(API + 1), "runyard down && runyard up"), ("", "pip install --upgrade runyard-sdk"), ("1", "runyard-sdk")],
)
def test_a_route_that_is_not_there_names_both_versions_and_the_next_step(service, api, advice):
    answer, text = as_sdk(service, api)
    assert answer.status == 404
    assert f"The client is runyard-sdk/9.9, API {api or 1}; the service is Runyard {VERSION}, API {API}." in text
    assert advice in text
    assert (answer.getheader("X-Runyard-Api"), answer.getheader("X-Runyard-Version")) == (str(API), VERSION)


class EarlierService(BaseHTTPRequestHandler):
    """Answers as a service before API 2 does for what it does not know."""

    def do_GET(self):
        body = b'{"code": "not_found", "problem": "There is no such route.", "hint": "", "facts": {}}'
        self.send_response(404)
        self.send_header("X-Runyard-Wire", "1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        """Quiet."""


def test_a_service_before_the_number_is_named_as_such(monkeypatch):
    server = HTTPServer(("127.0.0.1", 0), EarlierService)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("RUNYARD_URL", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("RUNYARD_TOKEN", "any")
    try:
        with pytest.raises(NotFound, match=rf"API 1.*API {API}.*runyard down && runyard up"):
            Client().get("/brand-new")
    finally:
        server.shutdown()
        server.server_close()


def test_health_and_the_service_file_name_the_api(client, service):
    assert client.get("/health")["api"] == service["api"] == API
