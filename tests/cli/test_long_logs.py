"""Logs that are longer than one answer of the service."""

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from runyard.runs.history.logs import READ_LIMIT_BYTES
from tests.cli.conftest import RUNYARD, Shell

LOG = "azureml-logs/70_driver_log.txt"
MOST_MEMORY_KB = 150_000  # with the log in memory: above 200,000
LINES = (f"{number:01023d}\n".encode() for number in range(READ_LIMIT_BYTES // 1024 + 1_000))
RUN = """
from azureml.core import Experiment, Workspace
run = Experiment(Workspace.from_config(), "long").start_logging(snapshot_directory=None)
run.complete()
print(run.id)
"""
# A process that a large one starts counts the memory of that one as its own, so a small one stands between.
MEASURE = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:])
sys.stderr.write("\\n%d" % resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
"""
DOWNLOAD = """
from azureml.core import Run, Workspace
run = Run.get(Workspace.from_config(), {id!r})
run.get_all_logs("all-logs")
run.download_file({log!r}, "one.txt")
"""


@pytest.fixture(scope="module")
def long_run(shell: Shell) -> str:
    """A run with a log of 64 MiB and some more."""
    run_id = shell.python(RUN).split()[-1]
    log = shell.home / "logs" / run_id / LOG
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as sink:
        sink.writelines(LINES)
    return run_id


@pytest.fixture(scope="module")
def digest(shell: Shell, long_run: str) -> str:
    return _digest(shell.home / "logs" / long_run / LOG)


@pytest.mark.parametrize("options", [[], ["-f"], ["--file", LOG], ["--rank", "0"]], ids=" ".join)
def test_all_of_a_long_log_is_printed_in_little_memory(shell, long_run, digest, tmp_path, options):
    printed, memory_kb = _printed(shell, ["runs", "logs", long_run, *options], tmp_path / "printed")
    assert _digest(printed) == digest
    assert memory_kb < MOST_MEMORY_KB


def test_all_of_a_long_log_is_printed_behind_its_rank(shell, long_run, digest, tmp_path):
    printed, memory_kb = _printed(shell, ["runs", "logs", long_run, "--all"], tmp_path / "printed")
    plain = tmp_path / "plain"
    with printed.open("rb") as source, plain.open("wb") as sink:
        sink.writelines(line.removeprefix(b"[rank 0] ") for line in source)
    assert _digest(plain) == digest
    assert memory_kb < MOST_MEMORY_KB


def test_the_sdk_downloads_all_of_a_long_log(shell, long_run, digest):
    shell.python(DOWNLOAD.format(id=long_run, log=LOG))
    assert _digest(shell.folder / "all-logs" / LOG) == _digest(shell.folder / "one.txt") == digest


def _printed(shell: Shell, arguments: list[str], target: Path) -> tuple[Path, int]:
    """What the command printed, and the most memory that it took."""
    command = [sys.executable, "-c", MEASURE, RUNYARD, *arguments]
    with target.open("wb") as sink:
        done = subprocess.run(command, stdout=sink, stderr=subprocess.PIPE, env=shell.variables, cwd=shell.folder)
    assert done.returncode == 0, done.stderr
    return target, int(done.stderr.split()[-1])


def _digest(path: Path) -> str:
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()
