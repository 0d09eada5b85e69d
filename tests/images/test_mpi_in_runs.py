"""Open MPI of an image: the launcher in a container of the first node, daemons and ranks in one of each other node."""

import os
from datetime import UTC, datetime, timedelta

import pytest

from runyard.core.definitions.run import RunDefinition
from runyard.core.records.assets import Workspace
from runyard.core.records.launch_plan import EnvironmentSpec, ImageSpec
from runyard.core.records.runs import AttemptId
from runyard.environments.builder import LocalEnvironments
from runyard.runs.launch.layout import AttemptResources
from runyard.runs.launch.mpi import mpi_layout
from runyard.runs.launch.variables import RunContext
from tests.images.parts import SOON, Nodes, fixtures
from tests.node.conftest import rank_log

pytestmark = pytest.mark.images
home, service, nodes = fixtures

TELLS_RANK = """
import os, sys
print('rank', os.environ['OMPI_COMM_WORLD_RANK'], 'of', os.environ['OMPI_COMM_WORLD_SIZE'], sys.executable, flush=True)
print('argument', sys.argv[1])
open(os.environ['RUNYARD_JOURNALS'] + '/run1~%s-1-a.jsonl' % os.environ['RUNYARD_RANK'], 'w').write('[1]\\n')
"""
WAITS = """
import os, time
print('waits', flush=True)
while True:
    if os.environ['RUNYARD_RANK'] == '1' and os.path.exists('go'): raise ValueError('rank 1 is unwell')
    time.sleep(0.01)
"""


@pytest.fixture(scope="module")
def mpi_and_python(docker, debian_mpi, tmp_path_factory) -> ImageSpec:
    """An image with both, made once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", docker.address)
        environments = LocalEnvironments(tmp_path_factory.mktemp("environments"), {"PATH": os.environ["PATH"]})
        built = environments.ensure(EnvironmentSpec(python="3.11", image=ImageSpec(base=debian_mpi)), print)
    docker.images.tag(built.image, "mpi-and-python:1")
    return ImageSpec(base="mpi-and-python:1", interpreter=str(built.python))


def submit_mpi(nodes: Nodes, script: str, image: ImageSpec, *, per_node: int = 1) -> str:
    definition = {
        "script": "train.py",
        "arguments": ["$RUNYARD_RANK"],
        "communicator": "Mpi",
        "framework": "Python",
        "nodeCount": 2,
        "mpi": {"processCountPerNode": per_node, "nodeCount": 2},
    }
    workspace = Workspace("default", "id", "subscription", "group", "local", datetime.now(UTC))
    found = AttemptResources(
        AttemptId("run1.1"),
        RunContext(workspace, "experiment", "http://127.0.0.1", "token"),
        "token",
        EnvironmentSpec(),
        addresses=("127.0.9.1", "127.0.9.2"),
        names=("cluster-0", "cluster-1"),
    )
    environment = EnvironmentSpec(user_managed=True, image=image)
    if not image.interpreter:
        environment = EnvironmentSpec(python="3.11", image=image)
    plan = nodes.plan(
        script, nodes=mpi_layout(RunDefinition(definition), found), environment=environment, secret="s3cret"
    )
    nodes.gather(plan, 2)
    return nodes.engine.submit(plan)


def both_ended(service) -> list[dict]:
    service.wait_for(lambda: len([report for report in service.reports if report["state"] == "ended"]) == 2, SOON)
    return service.all_ended(2)


def wait_for_ranks(service) -> None:
    service.wait_for(lambda: all("waits" in rank_log(service, rank) for rank in (0, 1)), SOON)


def test_the_ranks_of_two_nodes_run_in_containers(nodes, service, mpi_and_python):
    submit_mpi(nodes, TELLS_RANK, mpi_and_python, per_node=2)
    ended = both_ended(service)
    assert [report["outcome"] for report in ended] == ["completed", "completed"], (ended, service.logs)
    for rank in range(4):
        words = rank_log(service, rank).split()
        assert words[:4] == ["rank", str(rank), "of", "4"]
        assert words[4].startswith("/azureml-envs/")
        assert f"argument {rank}" in rank_log(service, rank)
    assert sorted(service.journals) == [f"run1~{rank}-1-a" for rank in range(4)]
    assert nodes.containers() == []


def test_the_rank_that_failed_is_named_and_all_others_end(nodes, service, mpi_and_python):
    submit_mpi(nodes, WAITS, mpi_and_python)
    wait_for_ranks(service)
    nodes.let_go("run1.1-1")
    first = both_ended(service)[0]
    assert (first["outcome"], first["rank"], first["exit_code"]) == ("failed", 1, 1)
    assert nodes.containers() == []


def test_a_cancel_ends_the_containers_of_all_nodes(nodes, service, mpi_and_python):
    ticket = submit_mpi(nodes, WAITS, mpi_and_python)
    wait_for_ranks(service)
    nodes.engine.cancel(ticket, grace=timedelta(seconds=1))
    assert [report["outcome"] for report in both_ended(service)] == ["canceled", "canceled"]
    assert nodes.containers() == []


def test_an_image_without_open_mpi_is_told_what_to_install(nodes, service, debian):
    submit_mpi(nodes, TELLS_RANK, ImageSpec(base=debian))
    first = both_ended(service)[0]
    assert first["outcome"] == "failed"
    assert "apt-get install -y openmpi-bin" in first["error"]["message"]
    assert nodes.containers() == []
