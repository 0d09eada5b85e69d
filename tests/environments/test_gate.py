"""Packages for the steps of a Dockerfile, by way of this machine's loopback address: a real pip asks a real index."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from runyard.core.records.environments import PackageSettings
from runyard.environments.package_index.proxy import PackageIndexProxy, serve_packages
from runyard.environments.package_sources import PackageSources
from tests.environments.index_server import Index
from tests.environments.index_server import serving as serving_index
from tests.environments.wheelhouse import add_wheel
from tests.servers.certificates import make_certificate

SALT = b"of the home"


def _installed(sources: PackageSources, gate: PackageIndexProxy, folder: Path) -> str:
    """What a pip that knows nothing but the build arguments says when it fetches demo."""
    variables = {"PATH": "/usr/bin:/bin", "HOME": str(folder), **sources.build_args(gate.addresses)}
    command = [sys.executable, "-m", "pip", "download", "--no-cache-dir", "-d", str(folder / "got"), "demo"]
    done = subprocess.run(command, env=variables, cwd=folder, capture_output=True, text=True)
    return done.stdout + done.stderr


def _answer(address: str) -> str:
    with urlopen(address, timeout=10) as answer:
        return answer.read().decode()


@contextmanager
def _redirecting(to: str) -> Iterator[tuple[str, list[str | None]]]:
    """A server that sends whoever comes to another, and what it was shown."""
    shown: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            shown.append(self.headers["Authorization"])
            self.send_response(302)
            self.send_header("Location", to + self.path.removeprefix("/simple"))
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}", shown
        finally:
            server.shutdown()
            thread.join()


def test_an_index_with_a_password_is_had_without_it(wheels, tmp_path):
    add_wheel(wheels, "demo", "1.0")
    with serving_index(Index(wheels, login="me:s3cret")) as index:
        sources = PackageSources({}, PackageSettings(index_url=index.address_with_login))
        with serve_packages(sources, SALT) as gate:
            said = _installed(sources, gate, tmp_path)
            assert "s3cret" not in str(gate.addresses.values()) + said
    assert [file.name for file in (tmp_path / "got").iterdir()] == ["demo-1.0-py3-none-any.whl"], said


def test_the_certificates_of_a_workspace_count(wheels, tmp_path):
    add_wheel(wheels, "demo", "1.0")
    certificate = make_certificate(tmp_path / "tls")
    with serving_index(Index(wheels), certificate) as index:
        sources = PackageSources(
            {}, PackageSettings(index_url=index.address, ca_bundle=certificate.authority.read_text())
        )
        with serve_packages(sources, SALT) as gate:
            said = _installed(sources, gate, tmp_path)
    assert (tmp_path / "got/demo-1.0-py3-none-any.whl").exists(), said


def test_a_folder_of_wheels_is_a_page_of_links(wheels, tmp_path):
    add_wheel(wheels, "demo", "1.0")
    (wheels / "password").write_text("s3cret")
    sources = PackageSources({}, PackageSettings(find_links=(str(wheels),)))
    with serve_packages(sources, SALT) as gate:
        said = _installed(PackageSources({"PIP_NO_INDEX": "1"}, sources.settings), gate, tmp_path)
        address = gate.addresses[str(wheels)]
        assert "password" not in _answer(address)
        for outside in ("password", "../password", "%2e%2e/password", "..%2f..%2fetc/passwd", "/etc/passwd"):
            with pytest.raises(HTTPError, match="404"):
                urlopen(address + outside)
    assert (tmp_path / "got/demo-1.0-py3-none-any.whl").exists(), said


def test_who_does_not_know_the_address_gets_nothing(wheels):
    add_wheel(wheels, "demo", "1.0")
    with serve_packages(PackageSources({}, PackageSettings(find_links=(str(wheels),))), SALT) as gate:
        address = gate.addresses[str(wheels)]
        for wrong in ("/", "/0/", re.sub(r"/[0-9a-f]{32}/", f"/{'0' * 32}/", address), address.replace("/0/", "/1/")):
            with pytest.raises(HTTPError, match="404"):
                urlopen(wrong if "://" in wrong else address[: address.index("/", 8)] + wrong)


def test_the_address_is_the_same_the_next_time_and_another_in_another_home(wheels):
    sources = PackageSources({}, PackageSettings(find_links=(str(wheels),)))
    with serve_packages(sources, SALT) as first, serve_packages(sources, SALT) as beside:
        assert beside.addresses != first.addresses
    with serve_packages(sources, SALT) as again, serve_packages(sources, b"another") as other:
        assert again.addresses == first.addresses
        assert other.addresses != first.addresses


def test_a_login_is_shown_to_its_own_server_alone(wheels, tmp_path):
    add_wheel(wheels, "demo", "1.0")
    with serving_index(Index(wheels)) as index, _redirecting(index.address) as (host, shown):
        noted: list[str | None] = []
        with _redirecting(f"http://{host}/simple") as (first, seen):
            settings = PackageSettings(index_url=f"http://me:s3cret@{first}/simple")
            with serve_packages(PackageSources({}, settings), SALT) as gate:
                assert "demo-1.0" in _answer(f"{gate.addresses[settings.index_url]}demo/")
            noted += seen
    assert all(noted)
    assert shown == [None]


def test_what_cannot_be_had_is_told(wheels):
    with serving_index(Index(wheels, login="me:s3cret")) as index:
        settings = PackageSettings(index_url=index.address.replace("://", "://me:wr0ng@"))
        with serve_packages(PackageSources({}, settings), SALT) as gate, pytest.raises(HTTPError, match="401"):
            urlopen(gate.addresses[settings.index_url] + "demo/")
    assert "401" in gate.errors[0]
    with serve_packages(PackageSources({}, settings), SALT) as gate, pytest.raises(HTTPError, match="502"):
        urlopen(gate.addresses[settings.index_url] + "demo/")
    assert "refused" in gate.errors[0]
    assert "wr0ng" not in str(gate.errors)


def test_where_nothing_is_to_be_served_nobody_listens():
    with serve_packages(PackageSources({}, PackageSettings(index_url="https://index.example/simple")), SALT) as gate:
        assert gate.addresses == {}
