import os
import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from runyard.core.disk import is_disk_full
from runyard.core.errors import Json

_TAIL_BYTES, _TAIL_LINES = 64 << 10, 20
_TRACEBACK = "Traceback (most recent call last):"
_WRONG_USAGE = 2
"""The exit code of argparse."""
_LONGEST_LINE = 1_000
_RAISED = re.compile(r"(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*)(?:: (.*))?")


@dataclass
class ExitReport:
    """How a task ended, as it is reported to the service. Its fields are those of the report."""

    outcome: str
    phase: str
    exit_code: int | None = None
    signal: int | None = None
    oom: bool = False
    error: Json | None = None
    rank: int | None = None
    """The rank that failed; None where no single rank did."""
    tail: str = ""
    warnings: list[str] = field(default_factory=list)
    failed_at: str | None = None
    """When the failed process ended: the report itself is sent after the logs."""
    log: str = ""
    """Log of the process that failed."""
    failed_node: int | None = None
    """Node of the failed rank, if another."""
    exits: dict[str, list[int | None]] = field(default_factory=dict)
    """Exit code and signal of each rank, where known."""
    last_lines: dict[str, Json] = field(default_factory=dict)
    """Last log lines by rank, for a launcher on another node that reports for these ranks."""
    outputs: dict[str, int] = field(default_factory=dict)
    """Number of files by output, in a run on several nodes: the service saves outputs when all nodes have ended."""
    lost: bool = False
    """The supervisor was killed, so it is not known how the processes would have ended."""


def canceled_report(phase: str, why: str = "") -> ExitReport:
    error = {"code": "UserError", "message": why} if why else None
    return ExitReport("canceled", phase, error=error)


def stopped_report(end_as: str, phase: str) -> ExitReport:
    """Report of a task that was asked to stop; it has no error of its own."""
    return ExitReport(end_as, phase, exit_code=0 if end_as == "completed" else None)


def describe_os_error(error: OSError) -> str:
    """Describe an OSError in a sentence, with the next step where the disk is full."""
    if is_disk_full(error):
        return f"{error}. The disk is full: free space there, for instance with `runyard gc`, then submit again."
    return f"{error}."


def failed_report(phase: str, message: str, code: str = "ServiceError") -> ExitReport:
    return error_report(phase, {"code": code, "message": message})


def error_report(phase: str, error: Json) -> ExitReport:
    return ExitReport("failed", phase, error=error, failed_at=datetime.now(UTC).isoformat())


def unknown_report(rank: int, log: str) -> ExitReport:
    """Report of a script whose wait status is lost."""
    message = "It is not known how the script ended: the process that waits for its exit status was killed."
    report = failed_report("Running", message)
    report.lost, report.rank, report.log = True, rank, log
    return report


def add_failure(report: ExitReport, message: str) -> None:
    """Add a failure: a completed task becomes failed, a failed one's error gets the message too."""
    if report.outcome == "canceled":
        report.warnings.append(message)
    elif report.error is None:
        report.outcome, report.error = "failed", {"code": "ServiceError", "message": message}
    else:
        report.error["message"] = f"{report.error['message'].rstrip('.')}. {message}"


def report_exit(status: int, log: Path, *, rank: int, memory_ran_out: bool) -> ExitReport:
    """Report how the script ended, from its wait status and the tail of its log."""
    tail = read_log_tail(log)
    code = os.waitstatus_to_exitcode(status)
    report = ExitReport("completed" if code == 0 else "failed", "Running", exit_code=code, rank=rank)
    if code == 0:
        return report
    report.failed_at = datetime.now(UTC).isoformat()
    report.tail = "\n".join(tail.splitlines()[-_TAIL_LINES:])
    if code < 0:
        report.signal, report.exit_code = -code, 128 - code
        report.oom = memory_ran_out and report.signal == signal.SIGKILL
        message = _describe_kill(report.signal, report.oom)
    else:
        raised = find_last_exception(tail)
        report.oom = memory_ran_out and signal_of_shell(code) == signal.SIGKILL
        message = f"User program failed with {raised}" if raised else _describe_exit_code(code, report.oom)
        if not raised and (refused := _refused_arguments(code, tail)):
            message = f"User program failed with exit code {code}: {refused}"
        if advice := advise_on_exception(raised):
            message = f"{message.rstrip('.')}. {advice}"
    report.error = {"code": "UserError", "message": message}
    return report


def read_last_lines(log: Path) -> Json:
    """Last lines of a rank's log, and the last exception in it."""
    tail = read_log_tail(log)
    return {"tail": "\n".join(tail.splitlines()[-_TAIL_LINES:]), "raised": find_last_exception(tail)}


def find_last_exception(text: str) -> str:
    """`Type: text` of the last traceback; "" when there is none."""
    start = text.rfind(_TRACEBACK)
    if start < 0:
        return ""
    # Frames are indented; the first line that is not names the exception.
    lines = text[start + len(_TRACEBACK) :].splitlines()
    for number, line in enumerate(lines):
        found = _RAISED.fullmatch(line.rstrip())
        if found:
            message = _message_of_v1(found[1], lines[number + 1 :]) if found[2] == f"{found[1]}:" else found[2]
            return f"{found[1]}: {message}" if message else found[1]
    return ""


def _refused_arguments(code: int, text: str) -> str:
    """argparse's message, `train.py: error: unrecognized arguments: --lr`, if it ended the script; else ""."""
    last = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
    return last[:_LONGEST_LINE] if code == _WRONG_USAGE and ": error: " in last else ""


def _message_of_v1(name: str, lines: list[str]) -> str:
    """Message of an SDK v1 exception: these print their name first, and the message on the next line."""
    return lines[0].strip().removeprefix("Message: ") if lines else f"{name}:"


def read_log_tail(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            return file.read(_TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def describe_wait_status(status: int) -> str:
    """Describe a wait status: exit code or signal."""
    code = os.waitstatus_to_exitcode(status)
    return f"exit code {code}" if code >= 0 else f"killed by signal {_signal_name(-code)}"


def _signal_name(number: int) -> str:
    try:
        return f"{number} ({signal.Signals(number).name})"
    except ValueError:
        return f"{number} (an unnamed signal)"


def describe_rank_failure(report: ExitReport, raised: str) -> str:
    """Error message for a rank whose wait status this node does not have."""
    if raised:
        return f"User program failed with {raised}"
    if report.signal is not None:
        return _describe_kill(report.signal, report.oom)
    return _describe_exit_code(report.exit_code, report.oom)


def _describe_exit_code(code: int | None, oom: bool) -> str:
    failed, number = f"User program failed with exit code {code}", signal_of_shell(code)
    if number is None:
        return f"{failed}."
    return f"{failed}: a shell returns it for a command that was killed by signal {_cause_of_kill(number, oom)}"


def signal_of_shell(code: int | None) -> int | None:
    """Signal that a shell means by this exit code: 128 and the number of the signal. None for other codes."""
    number = (code or 0) - 128
    return number if number in set(signal.Signals) else None


def _describe_kill(number: int, oom: bool) -> str:
    return f"User program was killed by signal {_cause_of_kill(number, oom)}"


def _cause_of_kill(number: int, oom: bool) -> str:
    named = _signal_name(number)
    if oom:
        return f"{named}: the machine ran out of memory. Use smaller batches or a larger machine."
    if number == signal.SIGKILL:
        return f"{named} (out of memory?)."
    return f"{named}."


_PIN = "Name it in pip_packages or in the conda dependencies of the environment"
_TENSORFLOW_1 = (
    "The script is written for TensorFlow 1: use TensorFlow(framework_version='1.13'), or name tensorflow==1.15.5 "
    "with Python 3.7."
)
_ADVICE: Sequence[tuple[re.Pattern[str], str]] = [
    (
        re.compile(r"No module named 'sklearn\.externals|cannot import name '(joblib|six)'"),
        f"scikit-learn 0.23 dropped sklearn.externals: write `import joblib`, or have scikit-learn<0.23. {_PIN}.",
    ),
    (
        re.compile(r"module 'numpy' has no attribute '(float|int|bool|object|complex|str|long|unicode)'"),
        f"numpy 1.24 dropped this name: use the plain Python type, or have numpy<1.24. {_PIN}.",
    ),
    (
        re.compile(
            r"module 'tensorflow' has no attribute '(VERSION|placeholder|Session|InteractiveSession|app|flags|"
            r"ConfigProto|GPUOptions|global_variables_initializer|layers|contrib|get_default_graph|reset_default_graph|"
            r"set_random_seed|log|logging|gfile|variable_scope|get_variable|FixedLenFeature|truncated_normal)'"
            r"|module 'tensorflow[.\w]*\.train' has no attribute '(\w+Optimizer|Saver)'"
            r"|No module named 'tensorflow\.(contrib|examples)"
        ),
        _TENSORFLOW_1,
    ),
    (
        re.compile(r"No module named 'pkg_resources"),
        f"It came with setuptools, which is no longer in every environment: have setuptools<81. {_PIN}.",
    ),
    (
        re.compile(r"No module named '(?P<module>(?!azureml\b)\w+)"),
        "Add the package that brings '{module}' to pip_packages of the estimator or to the conda dependencies of "
        "the run's environment; a module of your own must lie in source_directory.",
    ),
]


def advise_on_exception(raised: str) -> str:
    """Advice for an exception, given as `Type: text`, that scripts for older packages often raise; "" for others."""
    for pattern, advice in _ADVICE:
        found = pattern.search(raised)
        if found:
            return advice.format(**found.groupdict())
    return ""
