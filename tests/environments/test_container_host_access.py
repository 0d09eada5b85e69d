"""What docker arguments may reach for: on a service that others reach, nothing of its machine."""

import pytest

from runyard.assets.secrets import Vault
from runyard.assets.workspaces import NewWorkspace, Workspaces
from runyard.core.definitions.run import RunDefinition
from runyard.core.errors import InvalidArgument
from runyard.core.principal import OWNER
from runyard.core.settings import read_settings
from runyard.server.wiring.core import open_core
from runyard.server.wiring.environments import build_environments

IMAGE = {"baseImage": "debian:12", "enabled": True}
REACHING = {**IMAGE, "arguments": ["-v", "/:/host"]}


@pytest.fixture
def taken(tmp_path):
    """Takes in a definition on a service with these settings."""
    opened = []

    def take(docker, pip=(), runyard=None, **variables):
        settings = read_settings({"RUNYARD_HOME": str(tmp_path), **variables})
        base = open_core(settings, "token")
        opened.append(base.stores)
        workspaces = Workspaces(base.stores.assets, base.runs, base.clock, base.access)
        workspaces.create(OWNER, "vision", NewWorkspace(), exist_ok=True)
        vault = Vault(base.stores.assets, key_file=tmp_path / "secrets.key")
        environments = build_environments(base, workspaces, vault)
        python = {"condaDependencies": {"dependencies": [{"pip": list(pip)}]}}
        definition = {"environment": {"docker": docker, "python": python}, "runyard": runyard or {}}
        return environments.of_runs.accept(OWNER, "vision", RunDefinition.parse(definition)).raw

    yield take
    for stores in opened:
        stores.close()


def test_the_owner_of_a_machine_may_reach_for_it(taken):
    assert taken(REACHING)["environment"]["docker"]["arguments"] == ["-v", "/:/host"]


def test_others_may_not(taken):
    with pytest.raises(InvalidArgument, match=r"--volume.*RUNYARD_CONTAINER_HOST_ACCESS=1"):
        taken(REACHING, RUNYARD_HOST="0.0.0.0")


def test_the_operator_decides(taken):
    taken(REACHING, RUNYARD_HOST="0.0.0.0", RUNYARD_CONTAINER_HOST_ACCESS="1")
    with pytest.raises(InvalidArgument, match="--volume"):
        taken(REACHING, RUNYARD_CONTAINER_HOST_ACCESS="0")


def test_what_stays_within_is_open_to_all(taken):
    taken({**REACHING, "arguments": ["--shm-size=1g", "--gpus", "all"]}, RUNYARD_HOST="0.0.0.0")


def test_arguments_of_a_run_without_a_container_mean_nothing(taken):
    taken({"arguments": ["-v", "/:/host"]}, RUNYARD_HOST="0.0.0.0")


@pytest.mark.parametrize(
    "line",
    [
        "secrets @ file:///root/.ssh",
        "file:///etc",
        "git+file:///srv/repository",
        "--find-links /root",
        "-f ~/x",
        "-i FILE:///x",
    ],
)
def test_an_image_is_made_from_files_of_the_machine_for_its_owner_alone(taken, line):
    taken(IMAGE, pip=[line])
    taken({}, pip=[line], RUNYARD_HOST="0.0.0.0")
    with pytest.raises(InvalidArgument, match=r"pip_packages holds .*RUNYARD_CONTAINER_HOST_ACCESS"):
        taken(IMAGE, pip=[line], RUNYARD_HOST="0.0.0.0")


def test_a_lock_that_came_along_names_no_files_of_the_machine(taken):
    locked = {"locked": {"lock": "x @ file:///root/.ssh\n"}}
    with pytest.raises(InvalidArgument, match="names files of the machine"):
        taken(IMAGE, pip=["x"], runyard=locked, RUNYARD_HOST="0.0.0.0")


def test_others_do_not_choose_the_folders_that_a_build_sees(taken):
    variables = {
        "UV_CACHE_DIR": "/etc",
        "SSL_CERT_DIR": "/home/ada/.ssh",
        "HOME": "/home/ada",
        "PIP_INDEX_URL": "https://a/b",
    }
    sent = {"submitter": {"python": "/usr/bin/python3", "variables": variables}}
    assert taken(IMAGE, runyard=sent)["runyard"] == sent
    kept = taken(IMAGE, runyard=sent, RUNYARD_HOST="0.0.0.0")["runyard"]["submitter"]
    assert kept == {"python": "/usr/bin/python3", "variables": {"PIP_INDEX_URL": "https://a/b"}}


def test_a_setting_that_is_none_is_named():
    with pytest.raises(InvalidArgument, match="RUNYARD_CONTAINER_HOST_ACCESS"):
        read_settings({"RUNYARD_CONTAINER_HOST_ACCESS": "perhaps"})
