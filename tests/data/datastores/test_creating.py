import dataclasses
import os
import traceback
from pathlib import Path

import pytest

from runyard.core.errors import AccessDenied, InvalidArgument, NotYet, Unreachable
from runyard.core.records.data import NetworkRules, StoreAccess
from runyard.data.datastores import open_store
from runyard.data.datastores.root_creation import create_root
from tests.servers.azurite_server import ACCOUNT, AzuriteServer

RULES = NetworkRules(retry_seconds=5)


def test_a_folder_is_made_once(tmp_path: Path) -> None:
    access = StoreAccess("folder", str(tmp_path / "deep" / "folder"))
    create_root(access, RULES)
    (tmp_path / "deep" / "folder" / "file").touch()
    create_root(access, RULES)
    assert os.listdir(access.root) == ["file"]


@pytest.mark.parametrize("kind", ["s3", "gcs", "web"])
def test_what_is_not_made_is_named(kind: str) -> None:
    with pytest.raises(NotYet, match="'bucket'"):
        create_root(StoreAccess(kind, "bucket/folder"), RULES)


def test_a_container_is_not_made_without_a_key(closed_port: int) -> None:
    options = {"account_name": "a", "endpoint": f"http://127.0.0.1:{closed_port}"}
    with pytest.raises(NotYet, match="account_key"):
        create_root(StoreAccess("azure", "c", options, {"client_secret": "s"}), RULES)
    with pytest.raises(InvalidArgument, match="account_key"):
        create_root(StoreAccess("azure", "c", options, {"account_key": "no base 64!"}), RULES)
    with pytest.raises(Unreachable, match="127"):
        create_root(StoreAccess("azure", "c", options, {"account_key": "YQ=="}), NetworkRules(retry_seconds=0.5))


@pytest.mark.servers
@pytest.mark.parametrize("by", ["account_key", "sas_token"])
def test_a_container_is_made_once(azurite: AzuriteServer, tmp_path: Path, by: str) -> None:
    secret = azurite.key if by == "account_key" else f"?{azurite.account_sas()}"
    options = {"account_name": ACCOUNT, "endpoint": azurite.endpoint}
    access = StoreAccess("azure", f"made-by-{by.replace('_', '-')}/folder", options, {by: secret})
    create_root(access, RULES)
    store = open_store(access, RULES)
    (tmp_path / "source").touch()
    store.put("a", tmp_path / "source", overwrite=False, progress=print)
    create_root(access, RULES)
    assert [file.path for file in store.list()] == ["a"]


@pytest.mark.servers
def test_a_container_that_may_not_be_made_is_named(azurite: AzuriteServer, azurite_access: StoreAccess) -> None:
    access = dataclasses.replace(azurite_access, root="fresh", secrets={"account_key": "d3Jvbmc="})
    with pytest.raises(AccessDenied, match="'fresh'") as refusal:
        create_root(access, RULES)
    assert "sig=" not in "".join(traceback.format_exception(refusal.value))
    with pytest.raises(InvalidArgument, match="'No_Good'"):
        create_root(dataclasses.replace(azurite_access, root="No_Good"), RULES)
