"""A service behind a proxy has the defaults of one that listens for others, though every request is from 127.0.0.1."""

import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from runyard.core.errors import InvalidArgument
from runyard.core.settings import read_settings
from runyard.server.http.forwarded import ForwardedHeaders
from runyard.server.lifecycle import start_service
from tests.attempts import node_of
from tests.conftest import end_home
from tests.needs import SYSTEM_PATH
from tests.wire_client import PREFIX, WireClient

PUBLIC = "train.example"
CONFIGURATION = """
daemon off;
worker_processes 1;
user {user};
pid {state}/nginx.pid;
error_log {state}/error.log crit;
events {{ worker_connections 64; }}
http {{
  access_log off;
  client_max_body_size 0;
  client_body_temp_path {state}/body;
  proxy_temp_path {state}/proxy;
  fastcgi_temp_path {state}/fastcgi;
  uwsgi_temp_path {state}/uwsgi;
  scgi_temp_path {state}/scgi;
  server {{
    listen 127.0.0.1:{port};
    location / {{ proxy_pass {service}; {headers} }}
  }}
}}
"""
HEADERS = {
    "as nginx does it": "",
    "with the name": "proxy_set_header Host $host;",
    "with all": "proxy_set_header Host $host; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;"
    " proxy_set_header X-Forwarded-Proto https;",
}


@dataclass(frozen=True)
class Proxied:
    home: Path
    direct: WireClient
    far: dict[str, WireClient]
    """The owner elsewhere, by what his proxy is told to pass on."""


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    folder = tmp_path_factory.mktemp("proxied")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RUNYARD_PUBLIC_URL", f"https://{PUBLIC}")
        facts = start_service(folder / "home", keep=True)
    try:
        with nginx(folder, facts["url"]) as ports:
            far = {
                name: WireClient(f"http://127.0.0.1:{port}", facts["token"], "behind") for name, port in ports.items()
            }
            direct = WireClient(facts["url"], facts["token"], "behind")
            direct.put(direct.here, {"exist_ok": True})
            yield Proxied(folder / "home", direct, far)
    finally:
        end_home(folder / "home")


@contextmanager
def nginx(folder: Path, service: str) -> Iterator[dict[str, int]]:
    """One for each of HEADERS; the port of each."""
    program = shutil.which("nginx", path=SYSTEM_PATH)
    assert program is not None
    ports, running = {}, []
    try:
        for number, (name, headers) in enumerate(HEADERS.items()):
            state = folder / f"nginx-{number}"
            state.mkdir()
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                ports[name] = probe.getsockname()[1]
            user = "root" if os.getuid() == 0 else "nobody"
            told = {"user": user, "state": state, "port": ports[name], "service": service, "headers": headers}
            (state / "nginx.conf").write_text(CONFIGURATION.format(**told))
            command = [program, "-p", str(state), "-c", str(state / "nginx.conf"), "-e", f"{state}/error.log"]
            running.append(subprocess.Popen(command))
            _await_port(ports[name])
        yield ports
    finally:
        for process in running:
            process.terminate()
            process.wait()


def _await_port(port: int) -> None:
    ends_at = time.monotonic() + 20
    while time.monotonic() < ends_at:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        threading.Event().wait(0.02)
    raise AssertionError("nginx does not listen")


@pytest.mark.needs("nginx")
@pytest.mark.parametrize("headers", HEADERS)
class TestBehindNginx:
    def test_it_is_called_by_its_public_name(self, proxied, headers):
        assert proxied.far[headers].ask("GET", f"{PREFIX}/health", host=PUBLIC).status == 200
        evil = proxied.far[headers].ask("GET", f"{PREFIX}/health", host="evil.example").status
        assert evil == (401 if "Host" in HEADERS[headers] else 200)
        assert proxied.direct.ask("GET", f"{PREFIX}/health", host=PUBLIC).status == 200
        assert proxied.direct.ask("GET", f"{PREFIX}/health", host="evil.example").status == 401

    def test_no_file_of_the_server_is_taken_by_its_path(self, proxied, headers, tmp_path):
        far = proxied.far[headers]
        (tmp_path / "file").write_bytes(b"the server's")
        assert far.get("/health")["shares_files"] is False
        refused = far.refusal("POST", "/blobs/adopt", {"paths": [str(tmp_path / "file")]})
        assert (refused["status"], "does not see" in refused["problem"]) == (400, True)
        items = [[str(tmp_path / "file"), "taken"]]
        assert far.refusal("POST", f"{far.here}/datastores/workspaceblobstore/adopt", {"items": items})["status"] == 400

    def test_no_folder_of_the_server_is_a_datastore(self, proxied, headers, tmp_path):
        far = proxied.far[headers]
        body = {"name": "theirs", "kind": "folder", "settings": {"folder": str(tmp_path)}}
        assert "RUNYARD_DATA_FOLDERS" in far.refusal("POST", f"{far.here}/datastores", body)["hint"]

    def test_no_private_address_is_read(self, proxied, headers):
        far = proxied.far[headers]
        body = {"type": "file", "sources": [{"url": "http://127.0.0.1:9/x"}]}
        refused = far.refusal("POST", f"{far.here}/datasets/resolve", {"body": body})
        assert refused["code"] == "access_denied"

    def test_large_bodies_pass(self, proxied, headers):
        data = os.urandom(3 << 20)
        assert proxied.far[headers].read(f"/blobs/{proxied.far[headers].put_blob(data)}") == data


@pytest.mark.needs("nginx")
def test_supervisors_of_the_server_hand_over_files_by_path(proxied):
    run_id = "handed-over"
    proxied.direct.interactive_run(run_id)
    node = node_of(proxied.direct, run_id)
    work = proxied.home / "attempts" / f"{run_id}.1" / "work"
    work.mkdir(parents=True)
    (work / "file").write_bytes(b"out")
    assert node.post(f"/runs/{run_id}/files/adopt", {"root": str(work), "paths": ["file"]})["entries"][0][2] == 3


def test_a_service_with_a_public_name_has_the_defaults_of_an_open_one(tmp_path):
    open_ones = read_settings({"RUNYARD_LISTEN": "0.0.0.0:1", "RUNYARD_NO_TLS": "1"}, tmp_path)
    behind = read_settings({"RUNYARD_PUBLIC_URL": f"https://{PUBLIC}:8443/x"}, tmp_path)
    for name in ("is_loopback", "allow_private_addresses", "allows_container_host_access"):
        assert getattr(behind, name) == getattr(open_ones, name) is False
    assert PUBLIC in behind.allowed_hosts
    near = read_settings({"RUNYARD_PUBLIC_URL": "http://localhost:8080"}, tmp_path)
    assert (near.is_loopback, near.allow_private_addresses) == (True, True)


def test_proxies_are_named_by_their_addresses(tmp_path):
    found = read_settings({"RUNYARD_TRUSTED_PROXIES": " 127.0.0.1, ::1,"}, tmp_path)
    assert found.trusted_proxies == {"127.0.0.1", "::1"}
    with pytest.raises(InvalidArgument, match="RUNYARD_TRUSTED_PROXIES"):
        read_settings({"RUNYARD_TRUSTED_PROXIES": "proxy.example"}, tmp_path)


@pytest.mark.parametrize(
    ("peer", "proxies", "given", "client", "scheme", "host"),
    [
        ("10.0.0.2", {"10.0.0.2"}, {"for": "1.2.3.4", "proto": "https", "host": PUBLIC}, "1.2.3.4", "https", PUBLIC),
        ("10.0.0.2", {"10.0.0.2"}, {"for": "127.0.0.1, 1.2.3.4"}, "1.2.3.4", "http", "first"),
        ("10.0.0.2", {"10.0.0.2", "10.0.0.3"}, {"for": "127.0.0.1, 1.2.3.4, 10.0.0.3"}, "1.2.3.4", "http", "first"),
        ("10.0.0.2", {"10.0.0.2"}, {"proto": "gopher", "for": ""}, "10.0.0.2", "http", "first"),
        ("10.0.0.9", {"10.0.0.2"}, {"for": "127.0.0.1", "proto": "https", "host": "x"}, "10.0.0.9", "http", "first"),
        ("127.0.0.1", set(), {"for": "1.2.3.4", "proto": "https", "host": "x"}, "127.0.0.1", "http", "first"),
    ],
)
def test_forwarded_headers_count_from_named_proxies_alone(peer, proxies, given, client, scheme, host):
    headers = [
        (b"host", b"first"),
        *((f"x-forwarded-{name}".encode(), value.encode()) for name, value in given.items()),
    ]
    scope = {"type": "http", "client": (peer, 1), "scheme": "http", "headers": headers}
    ForwardedHeaders(frozenset(proxies)).apply(scope)
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    assert (scope["client"][0], scope["scheme"], hosts) == (client, scheme, [host.encode()])
