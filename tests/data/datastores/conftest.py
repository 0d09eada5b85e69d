import socket
from collections.abc import Iterator

import pytest

from tests.servers.fixtures import azurite, azurite_access, s3_access, s3_server

__all__ = ["azurite", "azurite_access", "s3_access", "s3_server"]


@pytest.fixture
def closed_port() -> Iterator[int]:
    """Nobody listens there, and nobody else can begin to."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]
