from pathlib import Path

import pytest

from runyard.errors import InvalidArgument
from runyard.settings import home_folder, read_settings


def test_nothing_set_means_loopback_and_sqlite_in_the_home():
    settings = read_settings({"RUNYARD_HOME": "/somewhere"})
    assert (settings.home, settings.host, settings.port) == (Path("/somewhere"), "127.0.0.1", 0)
    assert settings.store_url == "sqlite:////somewhere/runyard.db"
    assert settings.allowed_hosts == {"localhost", "127.0.0.1", "::1"}
    assert settings.idle_seconds == 1800


def test_what_is_set_is_taken():
    settings = read_settings(
        {
            "RUNYARD_HOME": "/somewhere",
            "RUNYARD_DATABASE_URL": "postgresql+psycopg://u@h/d",
            "RUNYARD_HOST": "0.0.0.0",
            "RUNYARD_PORT": "8123",
            "RUNYARD_ALLOWED_HOSTS": "Train.example, other",
            "RUNYARD_PUBLIC_URL": "https://train.example/",
            "RUNYARD_SNAPSHOT_MAX_BYTES": "5",
        }
    )
    assert settings.store_url == "postgresql+psycopg://u@h/d"
    assert (settings.host, settings.port) == ("0.0.0.0", 8123)
    assert settings.allowed_hosts >= {"train.example", "other", "localhost"}
    assert settings.public_url == "https://train.example"
    assert settings.snapshot_max_bytes == 5


@pytest.mark.parametrize("value", ["many", "-1", "nan", "inf"])
def test_a_number_that_is_none_is_refused_by_name(value):
    with pytest.raises(InvalidArgument, match="RUNYARD_IDLE_SECONDS"):
        read_settings({"RUNYARD_IDLE_SECONDS": value})


def test_the_home_is_absolute_and_of_the_user_by_default(monkeypatch):
    monkeypatch.setenv("HOME", "/home/somebody")
    assert home_folder({}) == Path("/home/somebody/.runyard")
    assert home_folder({"RUNYARD_HOME": "~/yard"}) == Path("/home/somebody/yard")
    assert home_folder({"RUNYARD_HOME": "relative"}).is_absolute()
