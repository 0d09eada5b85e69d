"""Stores that are opened by tokens, over https and through proxies."""

import json
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from runyard.core.errors import AccessDenied, NotFound, SourceChanged, Unreachable
from runyard.core.records.data import NetworkRules, StoreAccess
from runyard.data.datastores import open_store
from tests.servers.azurite_server import ACCOUNT, AzuriteServer
from tests.servers.certificates import Certificate, make_certificate
from tests.servers.gateway import Gateway
from tests.servers.s3_server import BUCKET, S3Server
from tests.servers.token_server import TokenServer

pytestmark = pytest.mark.servers

SECRET = "the client's secret"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def data_lake(tmp_path_factory: pytest.TempPathFactory, certificate: Certificate) -> Iterator[AzuriteServer]:
    server = AzuriteServer(tmp_path_factory.mktemp("lake"), certificate)
    server.start()
    server.make_container("lake")
    yield server
    server.kill()


@pytest.fixture
def logins(certificate: Certificate) -> Iterator[TokenServer]:
    server = TokenServer(SECRET, certificate)
    yield server
    server.close()


@pytest.fixture
def trusting(certificate: Certificate) -> NetworkRules:
    return NetworkRules(retry_seconds=20, variables={"SSL_CERT_FILE": str(certificate.authority)})


def principal(lake: AzuriteServer, logins: TokenServer, secret: str = SECRET) -> StoreAccess:
    options = {
        "account_name": ACCOUNT,
        "endpoint": lake.endpoint,
        "tenant_id": "tenant",
        "client_id": "client",
        "authority": logins.url,
    }
    return StoreAccess("azure", "lake", options, {"client_secret": secret})


def test_a_service_principal_opens_a_data_lake(
    data_lake: AzuriteServer, logins: TokenServer, trusting: NetworkRules, tmp_path: Path
) -> None:
    store = open_store(principal(data_lake, logins), trusting)
    (tmp_path / "source").write_bytes(b"12345")
    stored = store.put("folder/file", tmp_path / "source", overwrite=True, progress=print)
    assert [file.etag for file in store.list("folder/")] == [stored.etag]
    assert bytes(store.read("folder/file", 1, 3, etag=stored.etag)) == b"234"
    assert logins.given == 1


def test_a_wrong_client_secret_is_refused_at_once_and_not_told(
    data_lake: AzuriteServer, logins: TokenServer, trusting: NetworkRules
) -> None:
    store = open_store(principal(data_lake, logins, "not the secret"), trusting)
    begun = time.monotonic()
    with pytest.raises(AccessDenied, match="invalid_client") as refusal:
        list(store.list())
    assert time.monotonic() - begun < 10
    assert "not the secret" not in "".join(traceback.format_exception(refusal.value))


def test_a_certificate_that_nobody_vouches_for_is_not_trusted(data_lake: AzuriteServer) -> None:
    store = open_store(keyed(data_lake), NetworkRules(retry_seconds=1))
    with pytest.raises(Unreachable, match="certificate is not trusted"):
        list(store.list())


def test_a_proxy_of_the_rules_is_used_and_one_of_the_process_is_not(
    data_lake: AzuriteServer, trusting: NetworkRules, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    gateway = Gateway(data_lake.port)
    try:
        list(open_store(keyed(data_lake), trusting).list())
        assert gateway.connects == []
        proxied = {**trusting.variables, "https_proxy": f"http://us%40er:pass@127.0.0.1:{gateway.port}"}
        list(open_store(keyed(data_lake), NetworkRules(variables=proxied)).list())
        [head] = gateway.connects
        assert head.startswith(f"CONNECT 127.0.0.1:{data_lake.port} ".encode())
        assert b"Basic dXNAZXI6cGFzcw==" in head
        excepted = {**proxied, "no_proxy": "127.0.0.1"}
        list(open_store(keyed(data_lake), NetworkRules(variables=excepted)).list())
        assert len(gateway.connects) == 1
    finally:
        gateway.close()


def keyed(lake: AzuriteServer) -> StoreAccess:
    return StoreAccess("azure", "lake", {"account_name": ACCOUNT, "endpoint": lake.endpoint}, {"account_key": lake.key})


@pytest.fixture(scope="module")
def google(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """Google's stores speak the S3 protocol, with tokens in the place of signatures, which this server lets pass. It
    does not know Google's own condition for 'only if absent', so the whole suite cannot run on it."""
    server = S3Server(tmp_path_factory.mktemp("google"), checks_signatures=False)
    server.start()
    yield server
    server.kill()


def service_account() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return json.dumps(
        {
            "type": "service_account",
            "client_email": "tests@example.iam.gserviceaccount.com",
            "private_key_id": "1",
            "private_key": key.private_bytes(encoding, form, serialization.NoEncryption()).decode(),
        }
    )


def test_a_service_account_opens_a_google_bucket(google: S3Server, tmp_path: Path) -> None:
    secrets = {"service_account_key": service_account()}
    access = StoreAccess("gcs", f"{BUCKET}/folder", {"endpoint": google.endpoint}, secrets)
    store = open_store(access, NetworkRules(retry_seconds=5))
    large = bytes(range(256)) * (20 << 12)
    (tmp_path / "source").write_bytes(large)
    stored = store.put("a/lärge 100%", tmp_path / "source", overwrite=True, progress=print)
    assert [(file.path, file.size, file.etag) for file in store.list("a/")] == [
        ("a/lärge 100%", len(large), stored.etag)
    ]
    store.fetch(stored, tmp_path / "target", print)
    assert (tmp_path / "target").read_bytes() == large
    with pytest.raises(SourceChanged):
        store.read(stored.path, 0, 10, etag="another")
    store.delete(stored.path)
    with pytest.raises(NotFound, match="100%"):
        store.stat(stored.path)


def test_a_google_bucket_without_a_key_is_never_written_with_the_machines_own(google: S3Server, tmp_path: Path) -> None:
    (tmp_path / "source").touch()
    store = open_store(StoreAccess("gcs", BUCKET, {"endpoint": google.endpoint}), NetworkRules(retry_seconds=5))
    with pytest.raises(AccessDenied):
        store.put("a", tmp_path / "source", overwrite=True, progress=print)
