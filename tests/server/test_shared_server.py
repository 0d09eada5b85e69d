"""What differs on a service that others than users of this machine can reach."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from runyard.assets.workspaces import NewWorkspace, Workspaces
from runyard.core.definitions.dataset import DatasetDefinition
from runyard.core.definitions.run import RunDefinition
from runyard.core.errors import AccessDenied, InvalidArgument
from runyard.core.principal import OWNER, Principal, Role
from runyard.core.records.data import StoreAccess
from runyard.core.records.runs import RunId
from runyard.core.settings import Settings, read_settings
from runyard.data.datasets.dataset_registry import NewDataset
from runyard.data.datasets.datastore_registry import NewDatastore
from runyard.server.wiring.core import open_core
from runyard.server.wiring.platform import DataServices, build_data
from runyard.testing.records import a_run

WEB = DatasetDefinition.parse({"type": "file", "sources": [{"url": "http://127.0.0.1:9/x"}]})
Serve = Callable[..., DataServices]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """The services around data on a server's settings, with a workspace."""
    opened = []

    def build(**variables: str) -> DataServices:
        settings = read_settings({"RUNYARD_HOME": str(tmp_path / "home"), "RUNYARD_HOST": "0.0.0.0", **variables})
        settings.home.mkdir(exist_ok=True)
        base = open_core(settings, "token")
        opened.append(base.stores)
        workspaces = Workspaces(base.stores.assets, base.runs, base.clock, base.access)
        workspaces.create(OWNER, "vision", NewWorkspace(), exist_ok=True)
        return build_data(base, workspaces)

    yield build
    for stores in opened:
        stores.close()


def test_a_proxy_of_the_caller_opens_no_private_address_to_a_download(serve):
    data = serve()
    saved = data.datasets.save(OWNER, "vision", NewDataset("x", WEB, validate=False))
    with pytest.raises(AccessDenied, match=r"127\.0\.0\.1"):
        data.datasets.open(OWNER, "vision", saved.id, "x", {"http_proxy": "http://proxy.invalid:1"})


def test_private_addresses_are_not_read(serve):
    data = serve()
    with pytest.raises(AccessDenied, match=r"127\.0\.0\.1"):
        data.datasets.save(OWNER, "vision", NewDataset("x", WEB))
    s3 = NewDatastore("x", "s3", {"bucket": "b", "endpoint": "http://127.0.0.1:9"})
    with pytest.raises(AccessDenied, match=r"127\.0\.0\.1"):
        data.datastores.register(OWNER, "vision", s3)
    web = NewDatastore("x", "web", {"address": "http://169.254.169.254/"})
    with pytest.raises(AccessDenied, match=r"169\.254"):
        data.datastores.register(OWNER, "vision", web)
    data.datastores.register(OWNER, "vision", replace(web, skip_validation=True))
    of_metadata = DatasetDefinition.of_path("x", "latest/meta-data")
    with pytest.raises(AccessDenied):
        data.datasets.save(OWNER, "vision", NewDataset("x", of_metadata))


def test_a_clients_proxy_is_no_way_around_that(serve):
    data = serve(http_proxy="http://proxy.example:3128")
    chosen = data.attempt_data._network.for_request({"http_proxy": "http://127.0.0.1:9"})
    assert chosen.variables == {"http_proxy": "http://proxy.example:3128"}
    definition = {"runyard": {"submitter": {"variables": {"http_proxy": "http://127.0.0.1:9"}}}}
    assert data.attempt_data._network.for_run(RunDefinition.parse(definition)).variables == chosen.variables
    assert not chosen.allow_private


def test_an_operator_may_allow_private_addresses(serve):
    chosen = serve(RUNYARD_ALLOW_PRIVATE_ADDRESSES="1").attempt_data._network.for_request({"http_proxy": "http://p"})
    assert (chosen.allow_private, chosen.variables) == (True, {"http_proxy": "http://p"})


def test_folders_are_opened_only_below_those_of_the_operator(serve, tmp_path):
    (tmp_path / "data" / "scans").mkdir(parents=True)
    (tmp_path / "data" / "out").symlink_to("/etc")
    data = serve(RUNYARD_DATA_FOLDERS=str(tmp_path / "data"))
    made = data.datastores.register(
        OWNER, "vision", NewDatastore("scans", "folder", {"folder": str(tmp_path / "data" / "scans")})
    )
    assert made.body["settings"] == {"folder": str(tmp_path / "data" / "scans")}
    for folder in ("/etc", "/", str(tmp_path), str(tmp_path / "data" / "out"), f"{tmp_path}/data/../other"):
        with pytest.raises(InvalidArgument):
            data.datastores.register(OWNER, "vision", NewDatastore("odd", "folder", {"folder": folder}))


def test_without_folders_of_the_operator_none_is_opened(serve, tmp_path):
    with pytest.raises(InvalidArgument, match="not one that this service opens"):
        serve().datastores.register(OWNER, "vision", NewDatastore("x", "folder", {"folder": str(tmp_path / "scans")}))


def test_the_workspaces_own_datastores_lie_where_the_operator_says(serve, tmp_path):
    data = serve(RUNYARD_DATASTORES=f"file://{tmp_path}/pool")
    data.store_files.put(OWNER, "vision", "workspaceblobstore", "a/b", [b"x"], overwrite=False)
    assert (tmp_path / "pool" / "vision" / "workspaceblobstore" / "a" / "b").read_bytes() == b"x"


@pytest.mark.servers
def test_they_may_lie_in_a_bucket(serve, s3_server, s3_access: StoreAccess):
    data = serve(
        RUNYARD_DATASTORES=f"s3://{s3_access.root}/",
        RUNYARD_ALLOW_PRIVATE_ADDRESSES="1",
        AWS_ENDPOINT_URL=s3_server.endpoint,
        AWS_ACCESS_KEY_ID=s3_server.key_id,
        AWS_SECRET_ACCESS_KEY=s3_server.key,
    )
    data.store_files.put(OWNER, "vision", "workspaceblobstore", "a/b", [b"x"], overwrite=False)
    data.store_files.put(OWNER, "vision", "workspacefilestore", "c", [b"y"], overwrite=False)
    assert [file.path for file in data.store_files.list(OWNER, "vision", "workspaceblobstore")] == ["a/b"]
    made = data.datasets.save(OWNER, "vision", NewDataset("x", DatasetDefinition.of_path("workspaceblobstore", "a")))
    access = data.attempt_data.of_dataset(OWNER, "vision", made.id, is_apart=True)
    assert access.stores["workspaceblobstore"].root == f"{s3_access.root}/vision/workspaceblobstore"


def test_no_script_is_given_the_operators_credentials(serve, tmp_path):
    """They open the data of every workspace, so its files are read through the service."""
    data = serve(RUNYARD_DATASTORES=f"file://{tmp_path}/pool")
    data.stores._own = replace(data.stores._own, secrets={"key": "hush-hush"})
    data.store_files.put(OWNER, "vision", "workspaceblobstore", "a/b", [b"x"], overwrite=False)
    made = data.datasets.save(OWNER, "vision", NewDataset("x", DatasetDefinition.of_path("workspaceblobstore", "a")))
    owners = data.attempt_data.of_dataset(OWNER, "vision", made.id, is_apart=False).stores
    assert owners["workspaceblobstore"].secrets == {"key": "hush-hush"}
    data.attempt_data._runs.create(a_run("r", workspace="vision"))
    script = Principal(Role.RUN, RunId("r"), workspace="vision")
    (given,) = data.attempt_data.of_dataset(script, "vision", made.id, is_apart=False).stores.values()
    assert (given.kind, given.root, dict(given.secrets)) == ("service", "vision/workspaceblobstore", {})


def test_a_loopback_service_opens_any_folder_for_its_owner(serve, tmp_path):
    data = serve(RUNYARD_HOST="127.0.0.1")
    new = NewDatastore("x", "folder", {"folder": str(tmp_path)})
    data.datastores.register(OWNER, "vision", new)
    script = Principal(Role.RUN, RunId("r"), workspace="vision")
    with pytest.raises(InvalidArgument):
        data.datastores.register(script, "vision", replace(new, name="y"))


def test_a_settings_text_holds_no_credential():
    settings = read_settings(
        {"RUNYARD_DATASTORES": "az://box", "AZURE_STORAGE_ACCOUNT": "acme", "AZURE_STORAGE_KEY": "c2VjcmV0"}
    )
    assert settings.operator_store == StoreAccess("azure", "box", {"account_name": "acme"}, {"account_key": "c2VjcmV0"})
    assert "c2VjcmV0" not in repr(replace(settings, port=1))
    assert isinstance(settings, Settings)
