"""The pages' web addresses, answered from local files by `mirror_proxy.py` of the shared folder.

Its proxy answers 404 for any address it does not know. Environments are built while the pages run, with the same
variables, so connections to all other hosts are passed through.
"""

import contextlib
import importlib.util
import json
import os
import select
import socket
import sys
import threading
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

CHUNK_BYTES = 1 << 16


@contextlib.contextmanager
def mirrored(shared: Path, certificates: Path) -> Iterator[dict[str, str]]:
    """Serve the mirror on a free port of loopback; give the variables that lead a client to it."""
    tool = _load(shared / "tools" / "mirror_proxy.py")
    addresses = shared / "data" / "mirror.json"
    proxy = _proxy(tool.Proxy)(("127.0.0.1", 0), _handler(tool.Handler, _hosts(addresses)))
    proxy.mirror, proxy.authority = tool.Mirror(addresses), tool.Authority(certificates)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    try:
        yield _variables(f"http://127.0.0.1:{proxy.server_port}", certificates / "bundle.pem")
    finally:
        proxy.shutdown()
        proxy.server_close()


def _load(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("mirror_proxy", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _hosts(addresses: Path) -> set[str]:
    keys = json.loads(addresses.read_text(encoding="utf-8"))
    return {urllib.parse.urlsplit(key.removeprefix("prefix:")).hostname or "" for key in keys}


def _variables(proxy: str, bundle: Path) -> dict[str, str]:
    variables = {"http_proxy": proxy, "https_proxy": proxy, "no_proxy": "127.0.0.1,localhost"}
    variables |= {name.upper(): value for name, value in variables.items()}
    certificates = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT")
    return variables | dict.fromkeys(certificates, str(bundle))


def _proxy(mirror_proxy: type[Any]) -> type[Any]:
    class Proxy(mirror_proxy):  # type: ignore[misc]
        def handle_error(self, request: Any, client_address: Any) -> None:
            """Quiet about clients that hang up: a reader may want the beginning of a file alone."""
            if not isinstance(sys.exception(), ConnectionError):
                super().handle_error(request, client_address)

    return Proxy


def _handler(mirror_handler: type[Any], mirrored_hosts: set[str]) -> type[Any]:
    class Handler(mirror_handler):  # type: ignore[misc]
        def do_CONNECT(self) -> None:
            host, _, port = self.path.rpartition(":")
            if host in mirrored_hosts:
                super().do_CONNECT()
                return
            self.close_connection = True
            with _connect(host, int(port)) as upstream:
                self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
                with contextlib.suppress(OSError):  # either side may hang up at any time
                    _pass_through(self.connection, upstream)

        def log_message(self, template: str, *values: Any) -> None:
            """Quiet: every download of a build would be a line."""

    return Handler


def _connect(host: str, port: int) -> socket.socket:
    """Connect directly, or through the proxy that this machine itself needs."""
    outer = urllib.parse.urlsplit(os.environ.get("https_proxy") or os.environ.get("HTTPS_PROXY") or "")
    if not outer.hostname:
        return socket.create_connection((host, port), timeout=60)
    upstream = socket.create_connection((outer.hostname, outer.port or 80), timeout=60)
    upstream.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        answer += upstream.recv(1) or b"\r\n\r\n"
    return upstream


def _pass_through(client: socket.socket, upstream: socket.socket) -> None:
    other = {client: upstream, upstream: client}
    while True:
        for ready in select.select(list(other), [], [])[0]:
            data = ready.recv(CHUNK_BYTES)
            if not data:
                return
            other[ready].sendall(data)
