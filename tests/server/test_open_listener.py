"""What other machines meet: TLS, and the names of the service."""

import http.client
import json
import socket
import ssl
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from runyard.client import ServiceClient, ServiceUnavailable, certificates_file
from runyard.core.errors import InvalidArgument
from runyard.core.listen_settings import ListenAddress
from runyard.core.settings import Settings
from runyard.server.http.listener import ConnectionLimits, HttpListener
from runyard.server.http.server import listen
from runyard.server.http.tls import server_context
from runyard.server.lifecycle.process import main
from runyard.server.lifecycle.public_listener import open_public_listener
from tests.open_service import OpenService, answering, serving_outside
from tests.servers.certificates import Certificate, make_certificate
from tests.wire_client import PREFIX, WireClient


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenService]:
    with serving_outside(tmp_path_factory.mktemp("outside")) as served:
        yield served


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("certificate"))


def _settings(home: Path, made: Certificate, host: str = "127.0.0.1", **more: object) -> Settings:
    return replace(Settings(home), listen=ListenAddress(host, 0, made.chain, made.key), **more)


def _closed(listener: HttpListener | None) -> None:
    assert listener is not None
    listener.socket.close()


class TestReaching:
    def test_both_listeners_answer_and_tell_who_shares_their_files(self, outside):
        near = WireClient(outside.facts["url"], outside.facts["token"])
        assert near.get("/health")["shares_files"] is True
        assert outside.owner.get("/health")["shares_files"] is False
        assert outside.owner.get("/health")["pid"] == outside.facts["pid"]

    def test_no_files_are_taken_by_their_path_from_elsewhere(self, outside, tmp_path):
        owner = WireClient(outside.url, outside.facts["token"], "default", outside.certificate.authority)
        owner.put(owner.here, {"exist_ok": True})
        owner.interactive_run("far-away")
        (tmp_path / "x").write_text("x")
        bodies = {
            "/blobs/adopt": {"paths": [str(tmp_path / "x")]},
            "/runs/far-away/files/adopt": {"root": str(tmp_path), "paths": ["x"]},
            f"{owner.here}/datastores/workspaceblobstore/adopt": {"items": [[str(tmp_path / "x"), "x"]]},
        }
        for path, body in bodies.items():
            assert "does not see" in owner.refusal("POST", path, body)["problem"]

    def test_plain_http_gets_no_answer_from_it(self, outside):
        plain = WireClient(outside.url.replace("https", "http"), outside.facts["token"])
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            plain.get("/health")

    def test_no_token_no_answer(self, outside):
        assert outside.owner.ask("GET", f"{PREFIX}/health", authorization="").status == 401

    @pytest.mark.parametrize(
        ("host", "status"),
        [("evil.example", 401), ("127.0.0.1:1", 200), ("localhost", 200), ("127.0.0.1.evil.example", 401)],
    )
    def test_the_name_it_is_called_by_must_be_its_own(self, outside, host, status):
        assert outside.owner.ask("GET", f"{PREFIX}/health", host=host).status == status

    def test_an_old_protocol_is_refused(self, outside):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(outside.certificate.authority)
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
        address = ("127.0.0.1", int(outside.url.rpartition(":")[2]))
        with socket.create_connection(address) as plain, pytest.raises((ssl.SSLError, ConnectionError, ValueError)):
            context.wrap_socket(plain, server_hostname="127.0.0.1")


class TestTrust:
    def test_a_node_that_knows_the_issuer_is_answered(self, outside, tmp_path):
        for ca in (str(outside.certificate.authority), outside.certificate.authority.read_text()):
            home = outside.node_home(tmp_path / "node", ca=ca)
            assert ServiceClient(home, outside.facts["token"]).get("/health")["wire"] == 1

    def test_the_certificate_may_stand_for_itself(self, outside, tmp_path):
        own = outside.certificate.chain.read_text().partition("-----END CERTIFICATE-----\n")
        home = outside.node_home(tmp_path / "node", ca=own[0] + own[1])
        assert ServiceClient(home, outside.facts["token"]).get("/health")["wire"] == 1

    @pytest.mark.parametrize("ca", ["", "another"])
    def test_a_node_that_does_not_says_what_to_set(self, outside, tmp_path, ca):
        other = make_certificate(tmp_path / "other").authority.read_text() if ca else ""
        home = outside.node_home(tmp_path / "node", ca=other)
        with pytest.raises(ServiceUnavailable, match="RUNYARD_CA"):
            ServiceClient(home, outside.facts["token"]).get("/health")

    @pytest.mark.parametrize("ca", ["/not/there.pem", "no certificate"])
    def test_certificates_that_cannot_be_read_are_named(self, outside, tmp_path, ca):
        home = outside.node_home(tmp_path / "node", ca=ca)
        with pytest.raises(ServiceUnavailable, match="certificates to trust"):
            ServiceClient(home, outside.facts["token"]).get("/health")

    def test_another_name_than_the_certificates_is_not_trusted(self, outside, tmp_path):
        home = outside.node_home(tmp_path / "node", url=outside.url.replace("127.0.0.1", "localhost"))
        with pytest.raises(ServiceUnavailable, match="not trusted"):
            ServiceClient(home, outside.facts["token"]).get("/health")

    def test_an_expired_certificate_is_not_trusted(self, tmp_path):
        made = make_certificate(tmp_path / "old", ends=-timedelta(minutes=1))
        with answering(server_context(made.chain, made.key), ConnectionLimits()) as port:
            home = tmp_path / "node"
            home.mkdir()
            facts = {"url": f"https://127.0.0.1:{port}", "ca": str(made.authority)}
            (home / "service.json").write_text(json.dumps(facts))
            with pytest.raises(ServiceUnavailable, match="expired"):
                ServiceClient(home, "t").get("/health")

    def test_a_script_is_given_the_certificates_as_a_file(self, outside, tmp_path):
        text = outside.certificate.authority.read_text()
        written = certificates_file(outside.node_home(tmp_path / "node", ca=text))
        assert written is not None
        assert written.read_text() == text
        (tmp_path / "node" / "service.json").unlink()
        assert certificates_file(tmp_path / "node") == written
        path = str(outside.certificate.authority)
        assert certificates_file(outside.node_home(tmp_path / "node", ca=path)) == Path(path)
        assert certificates_file(outside.node_home(tmp_path / "node", ca=None)) is None


class TestStarting:
    def test_what_nodes_are_told_is_where_it_listens_and_whom_to_trust(self, tmp_path, certificate):
        found, listener = open_public_listener(_settings(tmp_path, certificate))
        _closed(listener)
        assert found.listen is not None
        assert found.node_url == f"https://127.0.0.1:{found.listen.port}"
        assert found.listen.port > 0
        assert found.node_ca == certificate.chain.read_text()
        assert "PRIVATE" not in found.node_ca

    def test_everywhere_becomes_a_name_that_the_certificate_has(self, tmp_path):
        made = make_certificate(tmp_path / "c", "*.train.example", "train.example", "127.0.0.1")
        # Listening is on loopback here; only the name is of everywhere.
        found, listener = open_public_listener(
            _settings(tmp_path, made, "127.0.0.1", public_url="https://train.example")
        )
        _closed(listener)
        assert found.node_url == "https://train.example"
        assert found.allowed_hosts >= {"train.example", "*.train.example", "localhost"}

    def test_the_operators_own_choice_of_whom_to_trust_counts_more(self, tmp_path, certificate):
        found, listener = open_public_listener(_settings(tmp_path, certificate, ca_file=certificate.authority))
        _closed(listener)
        assert found.node_ca == certificate.authority.read_text()

    def test_behind_a_proxy_the_public_address_is_enough(self, tmp_path):
        found, listener = open_public_listener(replace(Settings(tmp_path), public_url="https://train.example"))
        assert (found.node_url, listener) == ("https://train.example", None)
        assert open_public_listener(Settings(tmp_path))[0].node_url == ""

    def test_a_first_listener_off_loopback_needs_the_same_word(self, tmp_path):
        with pytest.raises(InvalidArgument, match=r"RUNYARD_HOST=0\.0\.0\.0"):
            open_public_listener(replace(Settings(tmp_path), host="0.0.0.0"))

    @pytest.mark.parametrize(
        ("broken", "says"),
        [
            ("missing certificate", "--tls-cert .* cannot be read"),
            ("missing key", "--tls-key .* cannot be read"),
            ("key is a folder", "--tls-key .* cannot be read"),
            ("not a certificate", "holds no certificate"),
            ("not a key", "holds no private key"),
            ("another key", "is not the one of the certificate"),
            ("encrypted key", "is encrypted"),
            ("expired", "has ended"),
            ("not yet", "begins on"),
            ("another name", r"is for other\.example and not for 127\.0\.0\.1"),
        ],
    )
    def test_a_certificate_that_cannot_be_used_is_explained(self, tmp_path, broken, says):
        made = _broken(tmp_path / "made", broken)
        with pytest.raises(InvalidArgument, match=says) as refused:
            open_public_listener(_settings(tmp_path, made))
        assert refused.value.hint

    def test_a_port_that_is_taken_is_named(self, tmp_path, certificate):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            port = other.getsockname()[1]
            taken = ListenAddress("127.0.0.1", port, certificate.chain, certificate.key)
            with pytest.raises(InvalidArgument, match=f"{port}: that port is taken"):
                open_public_listener(replace(Settings(tmp_path), listen=taken))

    def test_a_number_that_is_no_port_is_named(self):
        with pytest.raises(InvalidArgument, match="99999: that is no port") as refused:
            listen("127.0.0.1", 99999)
        assert refused.value.hint == "Choose one from 1 to 65535."

    def test_an_address_of_another_machine_is_named(self, tmp_path):
        made = make_certificate(tmp_path / "made", "192.0.2.7")
        with pytest.raises(InvalidArgument, match=r"192\.0\.2\.7:0: that is no address of this machine"):
            open_public_listener(_settings(tmp_path, made, "192.0.2.7"))

    def test_the_command_says_in_one_line_what_is_wrong(self, tmp_path, monkeypatch, capsys):
        home = tmp_path / "home"
        home.mkdir(mode=0o700)
        monkeypatch.setenv("RUNYARD_HOME", str(home))
        assert main(["--listen", "0.0.0.0:0"]) == 1
        assert "unencrypted" in capsys.readouterr().err
        assert json.loads((home / "start-error.json").read_text())["hint"]
        missing = [f"--tls-cert={tmp_path}/none", f"--tls-key={tmp_path}/none"]
        assert main(["--listen", "127.0.0.1:0", *missing]) == 1
        assert len(capsys.readouterr().err.splitlines()) == 1


def _broken(folder: Path, how: str) -> Certificate:
    day = timedelta(days=1)
    if how == "another name":
        return make_certificate(folder, "other.example")
    if how == "expired":
        return make_certificate(folder, begins=-2 * day, ends=-day)
    if how == "not yet":
        return make_certificate(folder, begins=day)
    made = make_certificate(folder)
    if how == "missing certificate":
        made.chain.unlink()
    elif how == "missing key":
        made.key.unlink()
    elif how == "key is a folder":
        return replace(made, key=folder)
    elif how == "not a certificate":
        made.chain.write_text("hello")
    elif how == "not a key":
        made.key.write_text("hello")
    elif how == "another key":
        return replace(made, key=make_certificate(folder / "other").key)
    elif how == "encrypted key":
        made.key.write_bytes(_encrypted(made.key.read_bytes()))
    return made


def _encrypted(key: bytes) -> bytes:
    from cryptography.hazmat.primitives import serialization as s

    opened = s.load_pem_private_key(key, None)
    return opened.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.BestAvailableEncryption(b"secret"))
