"""Real jobs: mpirun and its daemons on two nodes of this machine, whose launch servers the test opens."""

import contextlib
import json
import os
import re
import resource
import signal
import subprocess
from dataclasses import replace

import pytest

from runyard.core.errors import EngineError
from runyard.node.mpi.failure import MpiFailure, parse_mpirun_failure
from runyard.node.mpi.open_mpi import host_file_text, limit_open_files, orted_command, require_open_mpi
from runyard.node.mpi.rank_starter import IN_RANK
from runyard.node.network.private_network import PrivateNetwork
from tests.node.mpi.job import LAUNCHER_LOG, mpi_plan

pytestmark = pytest.mark.slow

TELLS_VARIABLES = """
import json, os, sys
print(json.dumps([dict(os.environ), os.getcwd(), sys.argv[1:]]))
"""
SUMS_RANKS = """
import ctypes, os
mpi = ctypes.CDLL("libmpi.so.40", ctypes.RTLD_GLOBAL)
world = ctypes.byref(ctypes.c_char.in_dll(mpi, "ompi_mpi_comm_world"))
integer, total = (ctypes.byref(ctypes.c_char.in_dll(mpi, name)) for name in ("ompi_mpi_int", "ompi_mpi_op_sum"))
mpi.MPI_Init(None, None)
mine, all_of_them = ctypes.c_int(int(os.environ["RUNYARD_RANK"])), ctypes.c_int()
mpi.MPI_Allreduce(ctypes.byref(mine), ctypes.byref(all_of_them), 1, integer, total, world)
print("the sum is", all_of_them.value, flush=True)
"""
ENDS_WELL = SUMS_RANKS + "mpi.MPI_Finalize()"
WAITS = SUMS_RANKS + "import time\ntime.sleep(60)"
GONE_SECONDS = 60.0
RACE_OF_MPIRUN = re.compile(r".*plm:rsh: Warning: setpgid.* failed in parent with errno=Permission denied.*")
"""mpirun says so where the program that it starts is quicker than its own bookkeeping; nothing comes of it."""


def rank_logs(job) -> list[str]:
    count = len(job.plan.nodes[0].ranks)
    return [job.nodes[rank // count].log(f"70_driver_log_{rank}.txt") for rank in range(count * len(job.nodes))]


def wait_for_sums(job) -> None:
    job.wait_until(lambda: all("the sum is 6" in log for log in rank_logs(job)))


def test_each_rank_has_its_own_nodes_variables_folder_and_paths(start_job):
    job = start_job("{python}", "-c", TELLS_VARIABLES, "$DATA", "${DATA}/x", "$AZUREML_DATAREFERENCE_images", "$UNSET")
    assert job.wait() == 0, job.said()
    logs = rank_logs(job)
    assert logs[0].startswith("a notice\n")
    assert not logs[1].startswith("a notice")
    for rank, log in enumerate(logs):
        variables, folder, arguments = json.loads(log.splitlines()[-1])
        node = job.nodes[rank // 2]
        assert variables["RUNYARD_RANK"] == variables["OMPI_COMM_WORLD_RANK"] == str(rank)
        assert variables["OMPI_COMM_WORLD_LOCAL_RANK"] == str(rank % 2)
        assert variables["OMPI_COMM_WORLD_SIZE"] == "4"
        for name in ("DATA", "LD_LIBRARY_PATH", "RUNYARD_PART", "PATH"):
            assert variables[name] == node.variables()[name]
        assert variables["PYTHONPATH"].split(":")[0] == node.variables()["PYTHONPATH"]
        assert folder == str(node.folder.work)
        of_node = node.plan.node
        assert arguments == [
            f"/data/of/node/{of_node}",
            f"/data/of/node/{of_node}/x",
            f"/images/of/node/{of_node}",
            "$UNSET",
        ]


def test_ranks_of_two_nodes_compute_together_and_leave_nothing(start_job):
    job = start_job("{python}", "-c", ENDS_WELL)
    assert job.wait() == 0, job.said()
    assert all("the sum is 6" in log for log in rank_logs(job))
    assert [line for line in job.said().splitlines() if line and not RACE_OF_MPIRUN.fullmatch(line)] == []


def test_ranks_of_nodes_that_share_no_files_meet_by_address(start_job):
    job = start_job("{python}", "-c", ENDS_WELL, shares_files=False)
    assert job.wait() == 0, job.said()
    assert job.nodes[1].server.address.startswith(f"tcp:{job.plan.nodes[1].address}:")


@pytest.mark.needs("private network")
def test_a_job_computes_in_a_private_network(start_job, tmp_path):
    network = PrivateNetwork.make(tmp_path, {})
    with contextlib.closing(network):
        job = start_job("{python}", "-c", ENDS_WELL, enter=network.enter)
        assert job.wait() == 0, job.said()
        assert all("the sum is 6" in log for log in rank_logs(job))


def test_ranks_may_open_the_files_that_their_launcher_does_without(start_job):
    job = start_job("/bin/sh", "-c", "ulimit -Sn; ulimit -Hn", enter=limit_open_files)
    assert job.wait() == 0, job.said()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert rank_logs(job)[3].split() == [str(soft), str(hard)]


def test_a_shells_own_text_is_left_to_the_shell(start_job):
    job = start_job("/bin/sh", "-c", 'DATA=other; echo "$DATA"')
    assert job.wait() == 0, job.said()
    assert rank_logs(job)[3] == "other\n"


def test_a_script_that_cannot_be_started_says_so_in_its_log(start_job):
    job = start_job("/nonexistent/program")
    assert job.wait() == 127
    assert "/nonexistent/program could not be started: No such file or directory." in "".join(rank_logs(job))


def test_a_rank_that_fails_ends_the_job_and_is_named(start_job):
    fails = "import os, sys, time\nsys.exit(3) if os.environ['RUNYARD_RANK'] == '2' else time.sleep(60)"
    job = start_job("{python}", "-c", fails)
    assert job.wait() == 3
    assert parse_mpirun_failure(job.nodes[0].log(LAUNCHER_LOG), job.plan) == MpiFailure(rank=2, node=1, exit_code=3)


def test_a_rank_that_raises_does_not_wait_for_the_others_who_wait_for_it(start_job):
    """As mpi4py does it: MPI_Finalize when the interpreter ends."""
    raises = "import atexit\natexit.register(print, 'its last words', flush=True)\nif mine.value == 1: 1 / 0\n"
    finalizes = SUMS_RANKS.replace("mpi.MPI_Init", "ctypes.pythonapi.Py_AtExit(mpi.MPI_Finalize)\nmpi.MPI_Init")
    waits_for_all = "mpi.MPI_Barrier(world)\n"
    job = start_job("{python}", "-c", finalizes + raises + waits_for_all)
    assert job.wait() == 1
    assert parse_mpirun_failure(job.nodes[0].log(LAUNCHER_LOG), job.plan) == MpiFailure(rank=1, node=0, exit_code=1)
    assert rank_logs(job)[1].rstrip().endswith("ZeroDivisionError: division by zero\nits last words")


@pytest.mark.parametrize("version", ["3.6", "3.13"])
def test_the_environments_own_customization_is_loaded_too(tmp_path, version, interpreter_of):
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.was_customized = True", encoding="utf-8")
    variables = {"PYTHONPATH": f"{IN_RANK}:{tmp_path}", "OMPI_COMM_WORLD_SIZE": "2"}
    program = "import sys, sitecustomize; print(sys.was_customized, sitecustomize.__file__)"
    command = [interpreter_of(version), "-c", program]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", str(tmp_path / "sitecustomize.py")]
    assert done.stderr == ""


def test_without_another_customization_nothing_is_said(interpreter_of):
    for version in ("3.6", "3.13"):
        variables = {"PYTHONPATH": IN_RANK, "OMPI_COMM_WORLD_SIZE": "2"}
        command = [interpreter_of(version), "-c", "import sys; print([p for p in sys.path if 'in_rank' in p])"]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
        assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_killed_rank_ends_the_job_and_is_named(start_job):
    job = start_job("{python}", "-c", WAITS)
    wait_for_sums(job)
    job.ranks()[3].send(signal.SIGKILL)
    job.wait_until(lambda: not job.living(), GONE_SECONDS)
    assert parse_mpirun_failure(job.nodes[0].log(LAUNCHER_LOG), job.plan) == MpiFailure(rank=3, node=1, signal=9)


def test_nothing_outlives_a_killed_mpirun(start_job):
    job = start_job("{python}", "-c", WAITS)
    wait_for_sums(job)
    os.kill(job.launcher, signal.SIGKILL)
    job.wait_until(lambda: not job.living(), GONE_SECONDS)


def test_nothing_outlives_a_killed_daemon_and_its_node_is_named(start_job):
    job = start_job("{python}", "-c", WAITS)
    wait_for_sums(job)
    os.kill(job.nodes[1].daemons[0], signal.SIGKILL)
    job.wait_until(lambda: not job.living(), GONE_SECONDS)
    assert parse_mpirun_failure(job.nodes[0].log(LAUNCHER_LOG), job.plan).node == 1


def test_the_rank_starter_runs_on_python_3_6(start_job, interpreter_of):
    job = start_job("{python}", "-c", "import sys; print(sys.version_info[:2])", python=interpreter_of("3.6"))
    assert job.wait() == 0, job.said()
    assert rank_logs(job)[3] == "(3, 6)\n"


def test_a_node_without_open_mpi_is_named_with_what_to_install(tmp_path):
    plan = mpi_plan(["127.0.3.2", "127.0.3.3"], 1, node=1)
    with pytest.raises(EngineError) as failure:
        require_open_mpi(plan, str(tmp_path / "bin/python"), {"PATH": str(tmp_path)})
    assert "Node cpu-1 (127.0.3.3) has no orted" in failure.value.problem
    assert "apt-get install openmpi-bin" in failure.value.hint
    assert "conda package openmpi" in failure.value.hint


def test_a_node_without_ranks_needs_no_open_mpi(tmp_path):
    plan = mpi_plan(["127.0.3.2", "127.0.3.3"], 1, node=1)
    idle = replace(plan.nodes[1], ranks=())
    require_open_mpi(replace(plan, nodes=(plan.nodes[0], idle)), str(tmp_path / "python"), {"PATH": str(tmp_path)})
    assert host_file_text(replace(plan, nodes=(plan.nodes[0], idle))) == "127.0.3.2 slots=1\n"


def test_the_environments_own_open_mpi_comes_first(tmp_path):
    own = tmp_path / "env/bin/orted"
    own.parent.mkdir(parents=True)
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    words = orted_command(
        mpi_plan(["a", "b"], 1),
        ["PATH=x", ";", "/opt/orted", "-mca", '"a b"'],
        str(own.with_name("python")),
        os.environ,
    )
    assert words == [str(own), "-mca", "a b"]  # as a shell reads it


@pytest.mark.parametrize("words", [[], ["rm", "-rf", "/"], ["sh", "-c", "orted; true"]])
def test_a_launcher_is_given_a_daemon_and_no_other_program(words):
    with pytest.raises(OSError, match="not for orted"):
        orted_command(mpi_plan(["a", "b"], 1), words, "python", os.environ)


@pytest.mark.needs("mpi")
def test_mpirun_is_the_version_whose_words_we_read():
    assert b"(Open MPI) 4." in subprocess.run(["mpirun", "--version"], capture_output=True, check=True).stdout
