import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Shell

pytestmark = pytest.mark.slow

PARTS = ["system", "home", "disk", "service", "Python", "uv", "compiler", "git", "mounts", "GPU"]
PARTS_OF_ENVIRONMENTS = ["container engine", "conda"]
PARTS_OF_SEVERAL_NODES = ["Open MPI", "MPI compilers", "network of runs", "stack dumps", "Ray"]


def findings(shell: Shell, **variables: str) -> dict[str, Any]:
    done = shell("doctor", "-o", "json", env={**shell.variables, **variables})
    return {finding["part"]: finding for finding in json.loads(done.stdout)}


@pytest.fixture
def bare_path(tmp_path: Path) -> str:
    """A PATH with nothing on it but what a test puts there."""
    return str(tmp_path)


def put(folder: str, name: str, text: str) -> None:
    program = Path(folder, name)
    program.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    program.chmod(0o755)


def test_it_names_what_runs_need(shell: Shell) -> None:
    found = findings(shell)
    assert list(found) == PARTS + PARTS_OF_ENVIRONMENTS + PARTS_OF_SEVERAL_NODES
    assert f"{sys.version_info[0]}.{sys.version_info[1]}" in found["Python"]["found"]


@pytest.mark.needs("mpi")
def test_it_finds_what_this_machine_has_for_several_nodes(shell: Shell) -> None:
    found = findings(shell)
    assert "(Open MPI) 4." in found["Open MPI"]["found"]
    assert found["MPI compilers"]["level"] == "ok"
    assert found["network of runs"]["found"].startswith("private")
    assert found["stack dumps"]["found"].startswith("py-spy")
    has_ray = importlib.util.find_spec("ray") is not None
    assert found["Ray"]["found"].startswith("ray 2." if has_ray else "not installed")


def test_what_is_missing_comes_with_what_to_install(shell: Shell, bare_path: str) -> None:
    found = findings(shell, PATH=bare_path)
    assert found["Open MPI"]["found"] == "no mpirun, orted on PATH"
    assert "apt-get install openmpi-bin" in found["Open MPI"]["remedy"]
    assert found["MPI compilers"]["found"] == "no mpicxx, g++ on PATH"
    assert "apt-get install passt" in found["network of runs"]["remedy"]


def test_another_mpi_is_not_taken_for_open_mpi(shell: Shell, bare_path: str) -> None:
    put(bare_path, "mpirun", "echo 'Intel(R) MPI Library'")
    put(bare_path, "orted", "")
    found = findings(shell, PATH=bare_path)["Open MPI"]
    assert found["level"] == "missing"
    assert "Intel(R) MPI Library" in found["found"]


def test_a_shared_network_is_said_in_plain_words(shell: Shell) -> None:
    found = findings(shell, RUNYARD_NETWORK="host")["network of runs"]
    assert found["level"] == "missing"
    assert "servers listen on every interface" in found["remedy"]
    assert "RUNYARD_NETWORK=host" in found["remedy"]


def test_the_text_shows_a_remedy_for_each_part_that_lacks_something(shell: Shell, bare_path: str) -> None:
    shown = shell("doctor", env={**shell.variables, "PATH": bare_path}).stdout
    assert "\nOpen MPI: Runs with MPI need it on every node" in shown
    assert "\nnetwork of runs: Distributed runs' servers listen on every interface" in shown


def test_without_an_engine_it_says_what_runs_in_images_do(shell: Shell, tmp_path: Path) -> None:
    nobody = {"DOCKER_HOST": f"unix://{tmp_path}/nobody.sock"}
    shell("environments", "settings", "--reset", "without_engine", "-w", "default")
    found = findings(shell, **nobody)["container engine"]
    assert found["level"] == "missing"
    assert "fail with the cause no_engine" in found["remedy"]
    assert "without_engine=virtual-environment" in found["remedy"]
    assert "DOCKER_HOST" in found["remedy"]


def test_without_an_engine_it_knows_the_workspaces_that_allow_virtual_environments(
    shell: Shell, tmp_path: Path
) -> None:
    shell("environments", "settings", "without_engine=virtual-environment")
    found = findings(shell, DOCKER_HOST=f"unix://{tmp_path}/nobody.sock")["container engine"]
    assert "in 'default' they get the same packages in a virtual environment" in found["remedy"]
    shell("environments", "settings", "--reset", "without_engine")


def test_it_names_the_conda_that_is_on_path(shell: Shell, bare_path: str) -> None:
    put(bare_path, "micromamba", "echo 1.5.8")
    found = findings(shell, PATH=bare_path)["conda"]
    assert found["level"] == "ok"
    assert found["found"].startswith("micromamba 1.5.8 at ")
