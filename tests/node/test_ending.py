import errno

import pytest

from runyard.node.processes.exit_report import (
    advise_on_exception,
    describe_os_error,
    describe_rank_failure,
    failed_report,
    find_last_exception,
    report_exit,
)
from runyard.node.supervisor.exit_diagnosis import _add_missing_gpu_hint, add_full_disk_hint

NO_GPU = "Runyard: use_gpu=True, but this machine has no GPU; the whole run takes the CPU."

CHAINED = """Traceback (most recent call last):
  File "a.py", line 1, in <module>
KeyError: 'x'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 3, in <module>
    raise my.module.Broken("no: way") from e
my.module.Broken: no: way
and a second line
"""


@pytest.mark.parametrize(
    ("text", "raised"),
    [
        (CHAINED, "Broken: no: way"),
        ('Traceback (most recent call last):\n  File "a"\nKeyboardInterrupt\n', "KeyboardInterrupt"),
        (
            'Traceback (most recent call last):\n  File "a"\nazureml.UserErrorException: UserErrorException:\n'
            "\tMessage: name must be a text.\n\tInnerException None\n",
            "UserErrorException: name must be a text.",
        ),
        ("all went well\n", ""),
        ('Traceback (most recent call last):\n  File "a.py"', ""),
    ],
)
def test_the_last_exception_is_found_in_the_log(text, raised):
    assert find_last_exception(text) == raised


@pytest.mark.parametrize(
    ("raised", "advice"),
    [
        (
            "ModuleNotFoundError: No module named 'sklearn.externals.joblib'",
            "`import joblib`, or have scikit-learn<0.23",
        ),
        ("ImportError: cannot import name 'joblib' from 'sklearn.externals' (/x/__init__.py)", "scikit-learn<0.23"),
        ("AttributeError: module 'numpy' has no attribute 'float'.", "numpy<1.24"),
        ("AttributeError: module 'tensorflow' has no attribute 'placeholder'", "framework_version='1.13'"),
        ("AttributeError: module 'tensorflow._api.v2.train' has no attribute 'AdamOptimizer'", "tensorflow==1.15.5"),
        ("ModuleNotFoundError: No module named 'tensorflow.examples'", "written for TensorFlow 1"),
        ("ModuleNotFoundError: No module named 'pkg_resources'", "setuptools<81"),
        ("ModuleNotFoundError: No module named 'pandas'", "brings 'pandas' to pip_packages"),
    ],
)
def test_what_old_scripts_stumble_over_comes_with_the_next_step(tmp_path, raised, advice):
    log = tmp_path / "log"
    log.write_text(f'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n{raised}\n')
    message = report_exit(1 << 8, log, rank=0, memory_ran_out=False).error["message"]
    assert message.startswith(f"User program failed with {raised.rstrip('.')}. ")
    assert advice in message


@pytest.mark.parametrize("raised", ["ValueError: too small", "ImportError: No module named 'azureml.other'", ""])
def test_nothing_is_advised_where_nothing_is_known(raised):
    assert advise_on_exception(raised) == ""


def test_only_the_end_of_a_huge_log_is_read(tmp_path):
    log = tmp_path / "log"
    log.write_bytes(b"x" * (1 << 22) + b"\n" + CHAINED.encode())
    ending = report_exit(1 << 8, log, rank=0, memory_ran_out=False)
    assert ending.error == {"code": "UserError", "message": "User program failed with Broken: no: way"}
    assert len(ending.tail) < 1 << 16


def test_memory_is_blamed_only_when_the_kernel_killed_for_it(tmp_path):
    killed = report_exit(9, tmp_path / "none", rank=0, memory_ran_out=True)
    crashed = report_exit(11, tmp_path / "none", rank=0, memory_ran_out=True)
    assert (killed.oom, crashed.oom) == (True, False)
    assert "ran out of memory" in killed.error["message"]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (137, "137: a shell returns it for a command that was killed by signal 9 (SIGKILL) (out of memory?)."),
        (139, "139: a shell returns it for a command that was killed by signal 11 (SIGSEGV)."),
        (128, "128."),
        (127, "127."),
        (255, "255."),
    ],
)
def test_the_exit_code_of_a_shell_names_the_signal_of_its_command(tmp_path, code, words):
    report = report_exit(code << 8, tmp_path / "none", rank=0, memory_ran_out=False)
    assert (report.exit_code, report.signal, report.oom) == (code, None, False)
    assert report.error["message"] == f"User program failed with exit code {words}"


def test_a_command_of_a_shell_that_the_kernel_killed_for_memory_is_named(tmp_path):
    killed = report_exit(137 << 8, tmp_path / "none", rank=0, memory_ran_out=True)
    crashed = report_exit(139 << 8, tmp_path / "none", rank=0, memory_ran_out=True)
    assert (killed.oom, crashed.oom) == (True, False)
    assert killed.error["message"].endswith(
        "signal 9 (SIGKILL): the machine ran out of memory. Use smaller batches or a larger machine."
    )


def test_an_exception_explains_more_than_the_exit_code_of_a_shell(tmp_path):
    log = tmp_path / "log"
    log.write_text(CHAINED)
    assert (
        report_exit(137 << 8, log, rank=0, memory_ran_out=False).error["message"]
        == "User program failed with Broken: no: way"
    )


def test_a_rank_that_exits_with_the_code_of_a_shell_is_described_alike():
    report = failed_report("Running", "")
    report.exit_code = 143
    assert describe_rank_failure(report, "").endswith("killed by signal 15 (SIGTERM).")


def test_a_full_disk_is_named_where_the_log_could_not_tell(tmp_path):
    ending = report_exit(1 << 8, tmp_path / "none", rank=0, memory_ran_out=False)
    add_full_disk_hint(ending, is_full=True, was_met=False)
    assert "no space left on the node's disk" in ending.error["message"]


@pytest.mark.parametrize(
    ("message", "was_met", "is_named"),
    [
        ("User program failed with exit code 1.", True, True),
        ("User program failed with OSError: [Errno 28] No space left on device", False, True),
        ("User program failed with OSError: [Errno 122] Disk quota exceeded: 'outputs/model'", False, True),
        ("User program failed with exit code 1.", False, False),
    ],
)
def test_a_disk_that_has_room_again_is_named_where_the_script_met_it_full(message, was_met, is_named):
    ending = failed_report("Running", message, "UserError")
    add_full_disk_hint(ending, is_full=False, was_met=was_met)
    told = f"{message.rstrip('.')}. A disk that the script writes to was full: free some space there, or write less."
    assert ending.error == {"code": "UserError", "message": told if is_named else message}


def test_the_line_of_argparse_is_the_cause_of_exit_code_2(tmp_path):
    log = tmp_path / "log"
    log.write_text("usage: train.py [-h]\ntrain.py: error: unrecognized arguments: --lr 0.1\n")
    ending = report_exit(2 << 8, log, rank=0, memory_ran_out=False)
    assert ending.error["message"] == (
        "User program failed with exit code 2: train.py: error: unrecognized arguments: --lr 0.1"
    )
    other = report_exit(3 << 8, log, rank=0, memory_ran_out=False)
    assert other.error["message"] == "User program failed with exit code 3."


@pytest.mark.parametrize(
    ("message", "notices", "is_named"),
    [
        ("RuntimeError: Found no NVIDIA driver on your system", [NO_GPU], True),
        ("AssertionError: Torch not compiled with CUDA enabled", [NO_GPU], True),
        ("ValueError: no", [NO_GPU], False),
        ("RuntimeError: CUDA out of memory", [], False),
    ],
)
def test_a_cuda_error_is_told_with_the_gpu_that_is_not_there(message, notices, is_named):
    ending = failed_report("Running", message, "UserError")
    _add_missing_gpu_hint(ending, notices)
    told = f"{message}. use_gpu=True, but this machine has no GPU; the whole run takes the CPU."
    assert ending.error["message"] == (told if is_named else message)


def test_a_full_disk_is_named_with_the_next_step() -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "/home/scripts")
    assert "The disk is full: free space there, for instance with `runyard gc`" in describe_os_error(full)
    assert describe_os_error(OSError(errno.EACCES, "Permission denied")) == "[Errno 13] Permission denied."
