"""A container sees little of the machine, and its node sees all: no link brings the one what the other can read."""

import errno
import time

import pytest

from runyard.core.errors import EnvironmentFailed
from runyard.core.records.launch_plan import ContainerRequest, NodePlan, ProcessSpec
from runyard.environments.containers.containers import ContainerSpec
from runyard.node.containers.markers import container_labels, list_markers, remove_containers, write_marker
from tests.images.parts import fixtures
from tests.node.conftest import driver_log
from tests.node.data.conftest import datastore, on_folder, output, reference

pytestmark = pytest.mark.images
__all__ = ["datastore"]
home, service, nodes = fixtures

LEADS_OUT = """
import os, shutil, sys
secret = sys.argv[1]
shutil.rmtree('logs')
os.symlink(secret, 'logs')
os.symlink(secret + '/key.txt', 'outputs/by-file')
os.symlink(secret, 'outputs/by-folder')
os.symlink(secret + '/key.jsonl', os.environ['RUNYARD_JOURNALS'] + '/run1~0-1-a.jsonl')
os.symlink(secret, os.environ['RUNYARD_UPLOADS'] + '/run1')
os.makedirs(os.environ['RUNYARD_UPLOADS'] + '/other')
os.symlink(secret + '/key.txt', os.environ['RUNYARD_UPLOADS'] + '/other/key.txt')
if len(sys.argv) > 2:
    os.symlink(secret + '/key.txt', sys.argv[2] + '/key.txt')
    open(sys.argv[2] + '/own', 'w').write('x')
print('sees it', os.path.exists(secret))
"""


@pytest.fixture
def secret(tmp_path):
    folder = tmp_path / "of the machine"
    folder.mkdir()
    (folder / "key.txt").write_text("HOST SECRET")
    (folder / "key.jsonl").write_text('["HOST SECRET"]\n')
    return folder


def all_that_came(service) -> bytes:
    return b"".join([*service.logs.values(), *service.journals.values(), *service.files.values()])


def test_links_out_of_the_container_deliver_nothing_of_the_machine(nodes, service, secret):
    nodes.submit(LEADS_OUT, str(secret))
    assert nodes.ended()["outcome"] == "completed", driver_log(service)
    assert "sees it False" in driver_log(service)
    assert b"HOST SECRET" not in all_that_came(service)
    assert sorted(file.name for file in secret.iterdir()) == ["key.jsonl", "key.txt"]


def test_nor_do_they_while_the_script_runs(nodes, service, secret):
    nodes.submit(
        LEADS_OUT + "import time\nopen('outputs/own', 'w').write('x')\ntime.sleep(600)", str(secret), max_seconds=4
    )
    assert nodes.ended()["outcome"] == "canceled"
    assert service.files["outputs/own"] == b"x"
    assert b"HOST SECRET" not in all_that_came(service)


def test_nor_are_they_uploaded(nodes, service, secret, datastore):
    service.data = on_folder(datastore)
    item = output("upload")
    nodes.submit(LEADS_OUT, str(secret), item.placeholder, data=(item,))
    assert nodes.ended()["outcome"] == "completed", driver_log(service)
    assert [file.name for file in (datastore / "out").iterdir()] == ["own"]


def test_a_link_that_a_script_left_on_a_datastore_is_not_followed_by_the_engine(nodes, service, secret, datastore):
    (datastore / "away").symlink_to(secret)
    service.data = on_folder(datastore)
    item = reference("mount", "away")
    nodes.submit("import sys, os; print(os.listdir(sys.argv[1]))", item.placeholder, data=(item,))
    assert "leads out of it" in nodes.ended()["error"]["message"]


def test_the_nodes_own_files_of_a_part_are_not_in_its_container(nodes, service, home):
    script = """
import os
print('beside', sorted(os.listdir('..')))
open('../cancel.json', 'w').write('{}')
log = [name for name in os.listdir('../std') if name.startswith('70_')][0]
try:
    os.rename('../std/' + log, '../std/x')
except OSError as error:
    print('errno', error.errno)
"""
    nodes.submit(script)
    assert nodes.ended()["outcome"] == "completed", driver_log(service)
    assert "beside ['journals', 'std', 'uploads', 'work']" in driver_log(service)
    assert f"errno {errno.EBUSY}" in driver_log(service)


def test_gpus_that_the_run_was_not_given_are_not_to_be_had(nodes, service):
    nodes.submit("print('ran')", container=ContainerRequest(wants_gpus=True))
    assert nodes.ended()["outcome"] == "completed"
    assert driver_log(service).startswith("Runyard: the docker argument --gpus does nothing here")


@pytest.mark.parametrize(
    ("wish", "gpus", "next_step"),
    [
        (ContainerRequest(memory_bytes=1 << 20), (), "docker argument --memory more"),
        (ContainerRequest(), ("0",), "nvidia-container-toolkit"),
        (ContainerRequest(sysctls=(("net.core.somaxconn", "1024"),)), (), "--network=bridge"),
    ],
)
def test_an_argument_that_the_engine_refuses_is_named(nodes, wish, gpus, next_step):
    process = ProcessSpec(0, ("{python}", "train.py"), {}, "azureml-logs/70_driver_log.txt")
    nodes.submit("print(1)", container=wish, nodes=(NodePlan("127.0.0.1", (process,), gpus),))
    ended = nodes.ended()
    assert ended["phase"] == "Starting"
    assert next_step in ended["error"]["message"]
    assert ended["error"]["cause"] == "engine_failed"
    assert nodes.containers() == []
    assert list_markers(nodes.home) == []


def a_container(nodes, name: str, part: str = "gone.1") -> None:
    spec = ContainerSpec(nodes.image, ("sleep", "600"), labels=container_labels(nodes.home, part), name=name)
    nodes.docker.containers.create(spec)


def test_an_engine_that_is_gone_keeps_no_other_container_from_being_removed(nodes, home, tmp_path):
    class Gone:
        address = f"unix://{tmp_path}/gone.sock"

    write_marker(home, "gone.1", "a-first", Gone)
    write_marker(home, "gone.1", "b-second", nodes.docker)
    a_container(nodes, "b-second")
    with pytest.raises(EnvironmentFailed):
        remove_containers(home, sorted(list_markers(home), key=lambda mark: mark.container))
    assert nodes.containers() == []
    assert [mark.container for mark in list_markers(home)] == ["a-first"]


def test_a_container_that_the_engine_still_makes_is_removed_when_it_comes(nodes, home):
    """Who asked for it was killed: its mark stays until it has been seen."""
    write_marker(home, "gone.1", "late", nodes.docker)
    remove_containers(home, list_markers(home))
    assert [mark.container for mark in list_markers(home)] == ["late"]
    a_container(nodes, "late")
    nodes.engine.warm()
    deadline = time.monotonic() + 30
    while nodes.containers() or list_markers(home):
        assert time.monotonic() < deadline
