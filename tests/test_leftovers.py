import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from runyard.data.fuse import kernel

ROOT = Path(__file__).parents[1]
LEAVES = {
    "temporary file": "os.close(tempfile.mkstemp()[0])",
    "temporary folder of a child": "subprocess.run(['mktemp', '-d'], check=True)",
    "process": "subprocess.Popen(['sleep', '300'], cwd='/', start_new_session=True)",
    "process that has a file of the session open": (
        "subprocess.Popen(['sleep', '301'], cwd='/', env={}, stdin=open(tmp_path / 'file', 'w+'))"
    ),
}


def test_a_session_that_leaves_something_behind_fails_and_names_it(tmp_path: Path) -> None:
    ended = session(tmp_path, "; ".join(LEAVES.values()))
    pids = [int(pid) for pid in re.findall(r"^process (\d+): sleep 30", ended.stdout, re.MULTILINE)]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    assert ended.returncode == pytest.ExitCode.TESTS_FAILED
    assert "left behind by this session" in ended.stdout
    assert "1 passed" in ended.stdout
    kinds = Counter(re.findall(r"^(temporary file|process) ", ended.stdout, re.MULTILINE))
    assert kinds == {"temporary file": 2, "process": 2}


def test_a_session_that_leaves_a_mount_behind_fails_and_names_it(tmp_path: Path) -> None:
    bind = f"kernel.bind(Path({str(tmp_path)!r}), tmp_path / 'mounted', read_only=True)"
    ended = session(tmp_path, f"from runyard.data.fuse import kernel; from pathlib import Path; {bind}")
    for point in reversed(kernel.mounts_below(tmp_path)):
        kernel.unmount(point)
    assert kernel.mounts_below(tmp_path) == []
    assert ended.returncode == pytest.ExitCode.TESTS_FAILED
    assert re.search(r"^mount .*/mounted ", ended.stdout, re.MULTILINE)


def test_a_session_that_cleans_up_passes(tmp_path: Path) -> None:
    ended = session(tmp_path, "tempfile.TemporaryDirectory().cleanup(); subprocess.run(['sleep', '0'])")
    assert ended.returncode == pytest.ExitCode.OK
    assert "left behind" not in ended.stdout


def test_what_a_process_that_shares_the_tests_leaves_behind_is_named_too(tmp_path: Path) -> None:
    ended = session(tmp_path, "os.close(tempfile.mkstemp(suffix='-of-' + os.environ['PYTEST_XDIST_WORKER'])[0])", "-n1")
    assert ended.returncode == pytest.ExitCode.TESTS_FAILED
    assert re.search(r"^temporary file .*-of-gw0$", ended.stdout, re.MULTILINE)


def test_processes_that_share_the_tests_are_nothing_left_behind(tmp_path: Path) -> None:
    ended = session(tmp_path, "tempfile.TemporaryDirectory().cleanup()", "-n2")
    assert ended.returncode == pytest.ExitCode.OK, ended.stdout


def session(folder: Path, test: str, *more: str) -> subprocess.CompletedProcess[str]:
    """Tests of their own with this one test."""
    file = folder / "test_one.py"
    file.write_text(f"import os, subprocess, tempfile\ndef test_one(tmp_path):\n    {test}\n")
    options = [f"--basetemp={folder / 'base'}", "--ending-seconds=0.2", "--confcutdir", str(folder), *more]
    command = [sys.executable, "-m", "pytest", "-p", "tests.leftovers", "-p", "no:cacheprovider", *options, str(file)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
