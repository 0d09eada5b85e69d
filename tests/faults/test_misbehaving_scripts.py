"""Scripts that end badly, flood, fork or leave things behind. No other run of the home loses anything."""

import os
from pathlib import Path

import pytest

from azureml.core import Run
from azureml.core.conda_dependencies import CondaDependencies
from azureml.core.environment import Environment
from tests.faults.yard import Yard, ended, eventually, is_alive, message_of

DRIVER_LOG = "azureml-logs/70_driver_log.txt"


@pytest.fixture(scope="module")
def neighbour(shared_yard: Yard) -> Run:
    """A run that ended well before the others misbehave."""
    script = "from azureml.core import Run\nRun.get_context().log('kept', 7)\nprint('a quiet neighbour')"
    return shared_yard.finish(script)


@pytest.fixture(autouse=True)
def _the_neighbour_is_untouched(neighbour: Run) -> object:
    yield
    assert neighbour.get_metrics() == {"kept": 7}
    assert "a quiet neighbour" in neighbour.get_details_with_logs()["logFiles"][DRIVER_LOG]


def test_an_exit_code_is_told(shared_yard: Yard) -> None:
    run = shared_yard.finish("import sys; sys.exit(3)")
    assert run.get_status() == "Failed"
    assert "3" in message_of(run)


def test_an_exception_is_told_in_its_own_words(shared_yard: Yard) -> None:
    run = shared_yard.finish("raise ValueError('the batch is empty')")
    assert run.get_status() == "Failed"
    assert "ValueError: the batch is empty" in message_of(run)


def test_a_killed_script_is_told_apart_from_one_that_failed(shared_yard: Yard) -> None:
    run = shared_yard.finish("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert run.get_status() == "Failed"
    assert "SIGKILL" in message_of(run)


def test_files_named_after_another_run_are_told_and_the_run_ends(shared_yard: Yard, neighbour: Run) -> None:
    script = (
        "import os, sys\n"
        "from azureml.core import Run\n"
        "Run.get_context().log('own', 1)\n"
        'line = b\'["m","kept",8,null,1.0]\\n\'\n'
        "journals = os.fsencode(os.environ['RUNYARD_JOURNALS'])\n"
        "for name in (os.fsencode(sys.argv[1]) + b'~0-1-a', b'no-such-run~0-1-a', b'\\xff~0-1-a'):\n"
        "    open(os.path.join(journals, name + b'.jsonl'), 'wb').write(line)\n"
        "folder = os.path.join(os.environ['RUNYARD_UPLOADS'], sys.argv[1], 'outputs')\n"
        "os.makedirs(folder)\n"
        "open(os.path.join(folder, 'strange.txt'), 'w').write('not mine')\n"
    )
    run = shared_yard.finish(script, arguments=(neighbour.id,))
    assert run.get_status() == "Completed"
    assert run.get_metrics() == {"own": 1}
    warnings = run.get_details()["warnings"]
    for name in (f"{neighbour.id}~0-1-a", "no-such-run~0-1-a", "cff~0-1-a", "outputs/strange.txt"):
        assert any(name in str(warning) for warning in warnings), (name, warnings)
    assert "outputs/strange.txt" not in neighbour.get_file_names()


def test_a_package_that_does_not_exist_is_named(shared_yard: Yard) -> None:
    environment = Environment("impossible")
    environment.python.conda_dependencies = CondaDependencies.create(
        pip_packages=["runyard-has-no-such-package==1.0"], pin_sdk_version=False
    )
    run = shared_yard.finish("print('never')", environment=environment)
    assert run.get_status() == "Failed"
    assert "runyard-has-no-such-package" in message_of(run)


def test_a_flood_of_output_is_kept_whole(shared_yard: Yard, full: bool, tmp_path: Path) -> None:
    megabytes = 1000 if full else 100
    script = (
        f"import sys\nblock = ('x' * 99 + '\\n') * 10_000\nfor _ in range({megabytes}):\n    sys.stdout.write(block)"
    )
    run = shared_yard.finish(script)
    assert run.get_status() == "Completed"
    run.download_file(DRIVER_LOG, str(tmp_path / "log"))
    with (tmp_path / "log").open("rb") as log:
        assert sum(line == b"x" * 99 + b"\n" for line in log) == megabytes * 10_000


def test_binary_on_stdout_is_kept_byte_by_byte(shared_yard: Yard, tmp_path: Path) -> None:
    run = shared_yard.finish("import sys\nsys.stdout.buffer.write(bytes(range(256)) * 1000)")
    assert run.get_status() == "Completed"
    run.download_file(DRIVER_LOG, str(tmp_path / "log"))
    assert bytes(range(256)) * 1000 in (tmp_path / "log").read_bytes()


def test_the_last_line_without_an_end_is_kept(shared_yard: Yard) -> None:
    run = shared_yard.finish("import sys\nsys.stdout.write('no line end')")
    assert "no line end" in run.get_details_with_logs()["logFiles"][DRIVER_LOG]


def test_children_that_fork_and_log_lose_no_point(shared_yard: Yard) -> None:
    run = shared_yard.finish(
        """
import os
from azureml.core import Run
run = Run.get_context()
run.log("before", 1)
for child in range(4):
    if os.fork() == 0:
        for step in range(250):
            run.log("child", child * 1000 + step)
        os._exit(0)
for child in range(4):
    os.wait()
run.log("after", 1)
"""
    )
    assert run.get_status() == "Completed"
    metrics = run.get_metrics()
    assert sorted(metrics["child"]) == [child * 1000 + step for child in range(4) for step in range(250)]
    assert (metrics["before"], metrics["after"]) == (1, 1)


LEAVES_CHILDREN = """
import os, sys, time
def stay():
    if os.fork() == 0:
        os.setsid()
        with open(sys.argv[1], "a") as pids:
            pids.write(str(os.getpid()) + "\\n")
        time.sleep(600)
        os._exit(0)
if os.fork() == 0:
    stay()
    os._exit(0)
stay()
while not os.path.exists(sys.argv[1]) or len(open(sys.argv[1]).readlines()) < 2:
    time.sleep(0.01)
"""


def test_what_a_script_leaves_behind_is_ended(shared_yard: Yard, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    run = shared_yard.finish(LEAVES_CHILDREN, arguments=(pids,))
    assert run.get_status() == "Completed"
    left = [int(line) for line in pids.read_text(encoding="utf-8").split()]
    assert len(left) == 2
    eventually(lambda: not any(map(is_alive, left)), "the end of the children", 15)


def test_cancel_ends_the_whole_tree(shared_yard: Yard, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    run = shared_yard.submit(LEAVES_CHILDREN + "\ntime.sleep(600)", arguments=(pids,))
    eventually(lambda: pids.exists() and len(pids.read_text().split()) == 2, "the children")
    run.cancel()
    assert ended(run).get_status() == "Canceled"
    left = [int(line) for line in pids.read_text(encoding="utf-8").split()]
    eventually(lambda: not any(map(is_alive, left)), "the end of the children", 15)


@pytest.mark.slow
def test_ten_thousand_outputs_all_arrive(shared_yard: Yard) -> None:
    run = shared_yard.finish(
        """
import os
for folder in range(100):
    os.makedirs(f"outputs/{folder}")
    for file in range(100):
        with open(f"outputs/{folder}/{file}", "w") as sink:
            sink.write(f"{folder}/{file}")
"""
    )
    assert run.get_status() == "Completed"
    outputs = [name for name in run.get_file_names() if name.startswith("outputs/")]
    assert sorted(outputs) == sorted(f"outputs/{folder}/{file}" for folder in range(100) for file in range(100))


def test_odd_things_in_outputs_neither_hang_nor_leak(shared_yard: Yard) -> None:
    """A pipe nobody writes to, a socket, a link out of the run, a loop of links, names of every kind."""
    run = shared_yard.finish(
        """
import os, socket
os.makedirs("outputs", exist_ok=True)
os.mkfifo("outputs/pipe")
socket.socket(socket.AF_UNIX).bind("outputs/socket")
os.symlink("/etc/passwd", "outputs/link")
os.symlink("loop", "outputs/loop")
os.symlink(".", "outputs/here")
for name in ("with space", "käse", "new\\nline", "per%2Fcent", "#hash?", "-dash"):
    with open("outputs/" + name, "w") as sink:
        sink.write(name)
with open(b"outputs/not-utf8-\\xff", "w") as sink:
    sink.write("x")
"""
    )
    assert run.get_status() == "Completed", message_of(run)
    names = run.get_file_names()
    for name in ("with space", "käse", "per%2Fcent", "#hash?", "-dash"):
        assert f"outputs/{name}" in names
    assert not any(name.endswith(("/pipe", "/socket", "/loop")) for name in names)


def test_outputs_survive_a_script_that_fails(shared_yard: Yard, tmp_path: Path) -> None:
    run = shared_yard.finish(
        "import os\nos.makedirs('outputs', exist_ok=True)\nopen('outputs/part.txt', 'w').write('so far')\n1 / 0"
    )
    assert run.get_status() == "Failed"
    run.download_file("outputs/part.txt", str(tmp_path / "part.txt"))
    assert (tmp_path / "part.txt").read_text(encoding="utf-8") == "so far"


def test_a_run_that_takes_too_long_is_ended(shared_yard: Yard) -> None:
    config = shared_yard.config("import time\ntime.sleep(600)", max_run_duration_seconds=1)
    run = ended(shared_yard.submit_config(config))
    assert run.get_status() in ("Failed", "Canceled")
    assert "max_run_duration_seconds" in message_of(run)


def test_a_script_that_closes_its_own_files_still_ends_well(shared_yard: Yard) -> None:
    run = shared_yard.finish("import os\nos.closerange(0, 256)\nos._exit(0)")
    assert run.get_status() == "Completed"


def test_a_script_that_empties_its_folder_still_ends(shared_yard: Yard) -> None:
    run = shared_yard.finish("import os, shutil\nshutil.rmtree(os.getcwd(), ignore_errors=True)")
    assert run.get_status() == "Completed"


def test_a_script_cannot_reach_the_neighbours_files_by_name(shared_yard: Yard, neighbour: Run) -> None:
    """Names that point to another run land nowhere else."""
    script = f"from azureml.core import Run\nRun.get_context().upload_file('../{neighbour.id}/x', '{os.devnull}')"
    run = shared_yard.finish(script)
    assert run.get_status() == "Failed"
    assert not any(name.endswith("x") for name in neighbour.get_file_names())
