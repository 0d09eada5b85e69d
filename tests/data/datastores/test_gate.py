"""Where not every address may be reached, object stores are reached through a gate."""

import http.client
import ssl
import threading
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import obstore
import pytest
from obstore.exceptions import BaseError
from obstore.store import S3Store

from runyard.core.errors import AccessDenied
from runyard.core.records.data import NetworkRules, StoreAccess
from runyard.data.datastores import open_store
from runyard.data.datastores.objects.egress_proxy import EgressProxy, egress_proxy_for
from tests.servers.certificates import Certificate, make_certificate


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("certificate"))


class Handler(BaseHTTPRequestHandler):
    """Serves five bytes, and leads astray to a metadata service."""

    def do_GET(self) -> None:
        if self.path.endswith("astray"):
            self.send_response(302)
            self.send_header("Location", "https://169.254.169.254/latest")
        else:
            self.send_response(200)
            self.send_header("ETag", '"1"')
            self.send_header("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT")
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"12345")

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server(certificate: Certificate) -> Iterator[str]:
    serving = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.chain, certificate.key)
    serving.socket = context.wrap_socket(serving.socket, server_side=True)
    thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"https://127.0.0.1:{serving.server_port}"
    serving.shutdown()
    serving.server_close()
    thread.join()


@pytest.fixture
def gate() -> Iterator[EgressProxy]:
    made = EgressProxy(NetworkRules(silence_seconds=5))
    yield made
    made.close()


def answer(gate: EgressProxy, place: str, login: str | None = None, method: str = "CONNECT") -> int:
    url = urlsplit(gate.url)
    connection = http.client.HTTPConnection("127.0.0.1", url.port or 0, timeout=10)
    headers = {"Proxy-Authorization": login or basic(gate)}
    try:
        connection.request(method, place, headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


def basic(gate: EgressProxy) -> str:
    url = urlsplit(gate.url)
    return f"Basic {b64encode(f'{url.username}:{url.password}'.encode()).decode()}"


def test_a_store_is_read_through_the_gate_and_not_led_astray(
    gate: EgressProxy, server: str, certificate: Certificate
) -> None:
    client = S3Store(
        "bucket",
        endpoint=server,
        region="us-east-1",
        skip_signature=True,
        client_options={"proxy_url": gate.url, "root_certificate": certificate.authority.read_bytes()},
        retry_config={"max_retries": 0},
    )
    assert bytes(obstore.get(client, "file").bytes()) == b"12345"
    with pytest.raises(BaseError, match="TunnelUnsuccessful"):
        obstore.get(client, "astray")


@pytest.mark.parametrize("host", ["169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]", "2852039166"])
def test_the_gate_leads_to_no_metadata_service(gate: EgressProxy, host: str) -> None:
    assert answer(gate, f"{host}:443") == 403


def test_the_gate_of_a_shared_server_leads_to_public_addresses_alone(server: str) -> None:
    gate = egress_proxy_for(NetworkRules(allow_private=False, silence_seconds=5))
    for place in (urlsplit(server).netloc, "localhost:443", "10.0.0.1:443", "[::1]:443"):
        assert answer(gate, place) == 403
    assert egress_proxy_for(NetworkRules(allow_private=False, silence_seconds=5)) is gate


def test_the_gate_opens_to_nobody_else(gate: EgressProxy, server: str) -> None:
    place = urlsplit(server).netloc
    assert answer(gate, place) == 200
    assert answer(gate, place, login="Basic Z2F0ZTpndWVzcw==") == 403
    assert answer(gate, f"http://{place}/", method="GET") == 403
    assert answer(gate, "nonsense") == 403
    assert answer(gate, place.replace(place.rpartition(":")[2], "9")) == 502


def test_plain_http_is_refused_on_a_shared_server() -> None:
    shared = NetworkRules(allow_private=False)
    with pytest.raises(AccessDenied, match="plain http"):
        open_store(StoreAccess("s3", "bucket", {"endpoint": "http://8.8.8.8"}), shared)
