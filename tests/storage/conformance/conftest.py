import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from runyard.storage.sql.schema import metadata
from runyard.storage.sql.stores import Stores, open_stores
from tests.storage.conformance.postgres_server import private_server


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The server named by RUNYARD_TEST_POSTGRES, whose tables are emptied, else a private one."""
    given = os.environ.get("RUNYARD_TEST_POSTGRES")
    if given:
        yield given
    else:
        with private_server() as url:
            yield url


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.servers)])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An address with no rows behind it, on each database in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/runyard.db"
    url: str = request.getfixturevalue("postgres_url")
    _empty(url)
    return url


@pytest.fixture
def stores(database_url: str) -> Iterator[Stores]:
    opened = open_stores(database_url)
    yield opened
    opened.close()


def _empty(url: str) -> None:
    database = open_stores(url).database
    with database.write() as connection:
        connection.execute(text(f"TRUNCATE {', '.join(metadata.tables)} RESTART IDENTITY CASCADE"))
    database.close()
