"""A real web server on loopback: nginx, which answers ranges."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CONFIGURATION = """
daemon off;
worker_processes 2;
user {user};
pid {state}/nginx.pid;
error_log {state}/error.log crit;
events {{ worker_connections 512; }}
http {{
  access_log off;
  sendfile on;
  tcp_nopush on;
  keepalive_requests 100000000;
  client_body_temp_path {state}/body;
  proxy_temp_path {state}/proxy;
  fastcgi_temp_path {state}/fastcgi;
  uwsgi_temp_path {state}/uwsgi;
  scgi_temp_path {state}/scgi;
  server {{ listen 127.0.0.1:{port}; root {folder}; }}
}}
"""


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address below which the folder's files are, until the end of the block."""
    nginx = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    assert nginx, "nginx is not installed: make ci-setup installs it"
    with tempfile.TemporaryDirectory(prefix="runyard-nginx-") as state:
        port = _free_port()
        settings = {"user": "root" if os.getuid() == 0 else "nobody", "state": state, "port": port, "folder": folder}
        file = Path(state, "nginx.conf")
        file.write_text(CONFIGURATION.format(**settings), encoding="utf-8")
        process = subprocess.Popen([nginx, "-p", state, "-c", str(file), "-e", f"{state}/error.log"])
        try:
            _wait_for(port)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 10
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
