import contextlib
import ipaddress
import os
import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from runyard.core.errors import DataFailed, Unreachable
from tests.data.http.servers import Hangup, Server, a_file, raw

BIG = os.urandom(1_000_000)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificate and key of 127.0.0.1 in one file, signed by itself."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    names = [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - timedelta(days=1))
        .not_valid_after(datetime.now(UTC) + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=True)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file = tmp_path_factory.mktemp("certificate") / "both.pem"
    file.write_bytes(signed.public_bytes(serialization.Encoding.PEM) + secret)
    return file


@pytest.fixture
def secure(certificate: Path) -> Iterator[Server]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = Server(context)
    server.pages["/a"] = a_file(BIG)
    yield server
    server.close()


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_the_certificates_that_a_variable_names_are_trusted(secure, open_web, certificate, fetched, variable):
    web = open_web(variables={variable: str(certificate)})
    assert bytes(web.read(f"{secure.url}/a", 1000, 900_000)) == BIG[1000:901_000]
    assert fetched(web, f"{secure.url}/a") == BIG
    assert secure.connections == 1


def test_a_certificate_of_nobody_known_is_refused_at_once(secure, web):
    with pytest.raises(DataFailed, match=r"/a could not be read: its certificate is not trusted.*Set SSL_CERT_FILE"):
        web.stat(f"{secure.url}/a")
    assert secure.connections == 1


def test_a_certificate_of_another_name_is_refused(secure, open_web, certificate):
    with pytest.raises(DataFailed, match="certificate is not trusted"):
        open_web(variables={"SSL_CERT_FILE": str(certificate)}).stat(f"https://localhost:{secure.port}/a")


def test_certificates_that_cannot_be_read_are_named(secure, open_web, tmp_path):
    (tmp_path / "text.pem").write_text("no certificate")
    for name in ("absent.pem", "text.pem"):
        with pytest.raises(DataFailed, match=f"{name}.*Set SSL_CERT_FILE"):
            open_web(variables={"SSL_CERT_FILE": str(tmp_path / name)}).stat(f"{secure.url}/a")


def test_a_secure_connection_that_is_cut_is_not_the_end_of_a_file(secure, open_web, certificate, fetched):
    secure.pages["/a"] = raw(b"HTTP/1.0 200 OK\r\n\r\nhalf")
    with pytest.raises(Unreachable, match="/a could not be read"):
        fetched(open_web(variables={"SSL_CERT_FILE": str(certificate)}), f"{secure.url}/a")


def test_a_server_that_does_not_speak_tls_is_said(server, web):
    with pytest.raises(Unreachable, match="no secure connection could be made"):
        web.stat(f"https://127.0.0.1:{server.port}/a")


def test_silence_within_a_secure_transfer_is_left(secure, open_web, certificate, fetched):
    def half(line, asked):
        line.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")
        line.stay_silent()

    secure.pages["/a"] = half
    with pytest.raises(Unreachable, match="nothing came"):
        fetched(open_web(variables={"SSL_CERT_FILE": str(certificate)}), f"{secure.url}/a")


def test_a_tunnel_through_a_proxy_reaches_the_server(server, secure, open_web, certificate):
    def tunnel(line, asked):
        host, _, port = asked.target.partition(":")
        with socket.create_connection((host, int(port))) as beyond:
            line.answer(200)
            line.relay(beyond)
        raise Hangup

    server.pages["*"] = tunnel
    variables = {"https_proxy": server.url.replace("//", "//ada:pass@"), "SSL_CERT_FILE": str(certificate)}
    with contextlib.closing(open_web(variables=variables)) as web:
        assert bytes(web.read(f"{secure.url}/a", 0, 500_000)) == BIG[:500_000]
        assert bytes(web.read(f"{secure.url}/a", 5, 5)) == BIG[5:10]
    assert [request.method for request in server.asked] == ["CONNECT"]
    assert "proxy-authorization" in server.asked[0].headers
    assert "proxy-authorization" not in secure.asked[0].headers
