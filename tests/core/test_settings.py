from pathlib import Path

import pytest

from runyard.core.definitions.run import RunDefinition
from runyard.core.errors import InvalidArgument
from runyard.core.settings import home_folder, read_settings
from runyard.data.datasets.network_policy import NetworkPolicy


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


def test_private_addresses_are_allowed_on_loopback_alone_unless_said():
    for variables, allowed in (
        ({}, True),
        ({"RUNYARD_HOST": "127.0.0.2"}, True),
        ({"RUNYARD_HOST": "0.0.0.0"}, False),
        ({"RUNYARD_HOST": "::"}, False),
        ({"RUNYARD_HOST": "0.0.0.0", "RUNYARD_ALLOW_PRIVATE_ADDRESSES": "1"}, True),
        ({"RUNYARD_ALLOW_PRIVATE_ADDRESSES": "0"}, False),
    ):
        assert read_settings(variables).allow_private_addresses is allowed, variables


def test_the_services_own_proxies_and_certificates_are_kept_and_nothing_else():
    given = {"https_proxy": "p", "NO_PROXY": "n", "SSL_CERT_FILE": "c", "PATH": "x", "http_proxy": ""}
    assert read_settings(given).network_variables == {"https_proxy": "p", "NO_PROXY": "n", "SSL_CERT_FILE": "c"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RUNYARD_DATASTORES", "ftp://x"),
        ("RUNYARD_DATASTORES", "bucket"),
        ("RUNYARD_DATASTORES", "s3://"),
        ("RUNYARD_DATASTORES", "s3://bucket/../x"),
        ("RUNYARD_DATASTORES", "file://relative"),
        ("RUNYARD_DATA_FOLDERS", "relative"),
        ("RUNYARD_ALLOW_PRIVATE_ADDRESSES", "maybe"),
        ("RUNYARD_CHANGED_DATA", "ignore"),
    ],
)
def test_a_data_setting_that_cannot_be_used_is_refused_by_name(name, value):
    with pytest.raises(InvalidArgument, match=name):
        read_settings({name: value})


def test_the_largest_file_of_the_web_can_be_set():
    assert read_settings({}).max_file_bytes is None
    rules = NetworkPolicy(read_settings({"RUNYARD_MAX_FILE_BYTES": "5e9"}))
    for found in (rules.for_request({}), rules.for_run(RunDefinition.parse({}))):
        assert (found.max_file_bytes, found.max_untold_bytes) == (5_000_000_000, 5_000_000_000)


def test_a_key_file_that_is_not_there_is_named(tmp_path):
    variables = {"RUNYARD_DATASTORES": "gs://b", "GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path / "none")}
    with pytest.raises(InvalidArgument, match="GOOGLE_APPLICATION_CREDENTIALS"):
        read_settings(variables)
    (tmp_path / "none").write_text("{}")
    store = read_settings(variables).operator_store
    assert store is not None
    assert store.secrets == {"service_account_key": "{}"}
