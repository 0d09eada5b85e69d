"""What is wrong with a store's settings is said when it is opened, before any server is asked."""

import json
import traceback

import pytest

from runyard.core.errors import AccessDenied, InvalidArgument
from runyard.core.records.data import NetworkRules, StoreAccess
from runyard.data.datastores import open_store
from runyard.data.datastores.objects.location import azure_endpoint, gcs_endpoint, s3_endpoint

SECRET = "c2VjcmV0LXNlY3JldC1zZWNyZXQ="
LOOPBACK = {"endpoint": "http://127.0.0.1:9", "account_name": "account"}


@pytest.mark.parametrize(
    ("options", "address"),
    [
        ({"account_name": "a"}, "https://a.blob.core.windows.net"),
        ({"account_name": "a", "endpoint": "core.chinacloudapi.cn"}, "https://a.blob.core.chinacloudapi.cn"),
        ({"account_name": "a", "protocol": "http"}, "http://a.blob.core.windows.net"),
        ({"account_name": "a", "endpoint": "127.0.0.1:10000", "protocol": "http"}, "http://127.0.0.1:10000/a"),
        ({"account_name": "a", "endpoint": "http://localhost:10000"}, "http://localhost:10000/a"),
        ({"account_name": "a", "endpoint": "http://127.0.0.1:10000/a"}, "http://127.0.0.1:10000/a"),
        ({"account_name": "a", "endpoint": "https://a.blob.core.windows.net"}, "https://a.blob.core.windows.net"),
        ({"account_name": "a", "endpoint": "", "protocol": ""}, "https://a.blob.core.windows.net"),
    ],
)
def test_azure_is_reached_where_v1_would_reach_it(options: dict[str, str], address: str) -> None:
    assert azure_endpoint(options) == address


def test_the_public_clouds_are_the_default() -> None:
    assert s3_endpoint({}) == "https://s3.us-east-1.amazonaws.com"
    assert s3_endpoint({"region": "eu-central-1"}) == "https://s3.eu-central-1.amazonaws.com"
    assert s3_endpoint({"endpoint": "minio.example.com:9000"}) == "https://minio.example.com:9000"
    assert gcs_endpoint({}) == "https://storage.googleapis.com"


@pytest.mark.parametrize(
    ("access", "problem"),
    [
        (StoreAccess("ftp", "bucket"), "'ftp' is not a kind of datastore"),
        (StoreAccess("s3", "", LOOPBACK), "names no bucket"),
        (StoreAccess("s3", "../bucket", LOOPBACK), "bucket"),
        (StoreAccess("s3", "bucket/../..", LOOPBACK), "leads out of its root"),
        (StoreAccess("s3", "bucket", {"endpoint": "ftp://host"}), "no web address"),
        (StoreAccess("s3", "bucket", {"endpoint": f"https://user:{SECRET}@host"}), "user name or password"),
        (StoreAccess("s3", "bucket", LOOPBACK, {"secret_access_key": SECRET}), "one is missing"),
        (StoreAccess("azure", "container", {"endpoint": "http://127.0.0.1:9"}), "account_name is missing"),
        (StoreAccess("azure", "container", LOOPBACK, {"account_key": f"!{SECRET}"}), "credentials .* cannot be used"),
        (StoreAccess("azure", "container", LOOPBACK, {"sas_token": SECRET[:-1]}), "credentials .* cannot be used"),
        (StoreAccess("azure", "container", LOOPBACK, {"client_secret": SECRET}), "tenant_id, client_id"),
        (StoreAccess("gcs", "bucket", LOOPBACK, {"service_account_key": SECRET}), "credentials .* cannot be used"),
        (
            StoreAccess("gcs", "bucket", LOOPBACK, {"service_account_key": json.dumps({"private_key": SECRET})}),
            "credentials .* cannot be used",
        ),
    ],
)
def test_a_wrong_setting_is_named_without_the_secret(access: StoreAccess, problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem) as refusal:
        open_store(access, NetworkRules())
    assert SECRET[:-1] not in "".join(traceback.format_exception(refusal.value))


def test_a_private_endpoint_is_refused_on_a_shared_server() -> None:
    shared = NetworkRules(allow_private=False)
    for kind in ("s3", "azure", "gcs"):
        with pytest.raises(AccessDenied, match=r"127\.0\.0\.1"):
            open_store(StoreAccess(kind, "bucket", LOOPBACK), shared)


@pytest.mark.parametrize("kind", ["s3", "azure", "gcs"])
def test_a_metadata_service_is_never_an_endpoint(kind: str) -> None:
    with pytest.raises(AccessDenied, match="link-local"):
        open_store(StoreAccess(kind, "bucket", {**LOOPBACK, "endpoint": "http://169.254.169.254/a"}), NetworkRules())


def test_the_place_that_tokens_come_from_is_checked_too() -> None:
    principal = {**LOOPBACK, "tenant_id": "t", "client_id": "c", "authority": "http://169.254.169.254"}
    with pytest.raises(AccessDenied, match="link-local"):
        open_store(StoreAccess("azure", "c", principal, {"client_secret": SECRET}), NetworkRules())


def test_a_store_shows_where_it_lies_and_no_secret() -> None:
    access = StoreAccess("azure", "container/folder/", LOOPBACK, {"account_key": SECRET})
    store = open_store(access, NetworkRules())
    assert store.identity == "azure:http://127.0.0.1:9/account/container/folder"
    assert SECRET not in repr(store)
    assert SECRET not in repr(vars(store))
    assert store.local_root is None
