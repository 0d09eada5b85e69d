"""A service as an operator sets it up for a Ray cluster: Ray is its engine, its nodes reach it over TLS."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from azureml.core.compute import AmlCompute, ComputeTarget
from tests.engines.ray_cluster import RayCluster
from tests.engines.test_runs_on_ray import logs_of, on_ray
from tests.faults.yard import Yard, ended, message_of
from tests.servers.certificates import make_certificate

pytestmark = pytest.mark.engines
SIZES = """
[STANDARD_NC6]
cpu = 2

[STANDARD_D2_V2]
cpu = 64
"""
TELLS_ITS_SERVICE = """
import os, pathlib
from azureml.core import Run
run = Run.get_context()
run.log("rank", int(os.environ["RANK"]))
run.tag("from", os.environ["RUNYARD_URL"])
pathlib.Path("outputs", "rank-" + os.environ["RANK"]).write_bytes(os.urandom(1 << 20))
print("the service is", os.environ["RUNYARD_URL"])
"""


@pytest.fixture(scope="module")
def server(cluster: RayCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    root = tmp_path_factory.mktemp("server")
    (root / "sources").mkdir()
    (root / "sizes.toml").write_text(SIZES)
    certificate = make_certificate(root / "certificates")
    settings = {
        "HOME": root / "home",
        "ENGINE": "ray",
        "RAY_ADDRESS": cluster.address,
        "VM_SIZES": root / "sizes.toml",
        "LISTEN": "127.0.0.1:0",
        "TLS_CERT": certificate.chain,
        "TLS_KEY": certificate.key,
    }
    with pytest.MonkeyPatch.context() as monkeypatch:
        for name, value in settings.items():
            monkeypatch.setenv(f"RUNYARD_{name}", str(value))
        opened = Yard(root / "sources")
        for name, size in (("fits", "STANDARD_NC6"), ("huge", "STANDARD_D2_V2")):
            configuration = AmlCompute.provisioning_configuration(vm_size=size, max_nodes=2)
            ComputeTarget.create(opened.workspace, name, configuration).wait_for_completion()
        yield opened
        opened.close()


def test_amlcompute_is_on_ray_and_a_run_there_brings_everything_home_over_tls(
    server: Yard, cluster: RayCluster, tmp_path: Path
) -> None:
    run = ended(server.submit(TELLS_ITS_SERVICE, **on_ray(2, target="fits")))
    assert run.get_status() == "Completed", message_of(run)
    assert run.get_tags()["from"].startswith("https://127.0.0.1:")
    assert set(run.get_metrics()["rank"]) == {0, 1}
    assert {"outputs/rank-0", "outputs/rank-1"} <= set(run.get_file_names())
    assert all("the service is https://" in log for log in logs_of(run).values())
    run.download_file("outputs/rank-1", str(tmp_path / "got"))
    assert (tmp_path / "got").stat().st_size == 1 << 20


def test_nodes_know_where_the_service_is_and_whom_to_trust_and_no_token_of_its_owner(
    server: Yard, cluster: RayCluster
) -> None:
    ended(server.submit("print()", **on_ray(target="fits")))
    owners = (server.home / "token").read_text().strip()
    homes = list(cluster.node_home.glob(f"{(server.home / 'service-id').read_text()}/*/service.json"))
    assert homes
    for file in homes:
        known = json.loads(file.read_text())
        assert known["url"].startswith("https://")
        assert "BEGIN CERTIFICATE" in known["ca"]
        assert owners not in file.read_text()


def test_a_node_of_a_vm_size_has_what_the_operators_table_says(server: Yard) -> None:
    with pytest.raises(Exception, match="64 CPU"):
        server.submit("print()", **on_ray(target="huge"))
