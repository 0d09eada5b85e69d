"""For a conftest to import. Servers are started once a session; each test gets a place of its own on them."""

import secrets
from collections.abc import Iterator

import pytest

from runyard.core.records.data import StoreAccess
from tests.servers.azurite_server import ACCOUNT, AzuriteServer
from tests.servers.s3_server import BUCKET, S3Server

__all__ = ["azurite", "azurite_access", "s3_access", "s3_server"]


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzuriteServer]:
    server = AzuriteServer(tmp_path_factory.mktemp("azurite"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    server = S3Server(tmp_path_factory.mktemp("s3"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def azurite_access(azurite: AzuriteServer) -> StoreAccess:
    """An empty container."""
    container = f"c{secrets.token_hex(8)}"
    azurite.make_container(container)
    options = {"account_name": ACCOUNT, "endpoint": azurite.endpoint}
    return StoreAccess("azure", container, options, {"account_key": azurite.key})


@pytest.fixture
def s3_access(s3_server: S3Server) -> StoreAccess:
    """An empty folder of the bucket."""
    keys = {"access_key_id": s3_server.key_id, "secret_access_key": s3_server.key}
    return StoreAccess("s3", f"{BUCKET}/{secrets.token_hex(8)}", {"endpoint": s3_server.endpoint}, keys)
