import errno
import os
import re
import signal
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from runyard.errors import Json
from runyard.node.old_code import next_step

_TAIL_BYTES, _TAIL_LINES = 64 << 10, 20
_TRACEBACK = "Traceback (most recent call last):"
_WRONG_USAGE = 2
"""The exit code of argparse."""
_LONGEST_LINE = 1_000
_RAISED = re.compile(r"(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*)(?:: (.*))?")


@dataclass
class Ending:
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


def canceled(phase: str, why: str = "") -> Ending:
    error = {"code": "UserError", "message": why} if why else None
    return Ending("canceled", phase, error=error)


def as_told(end_as: str, phase: str) -> Ending:
    """Report of a task that was asked to stop; it has no error of its own."""
    return Ending(end_as, phase, exit_code=0 if end_as == "completed" else None)


def obstacle(error: OSError) -> str:
    """Describe an OSError in a sentence, with the next step where the disk is full."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{error}. The disk is full: free space there, for instance with `runyard gc`, then submit again."
    return f"{error}."


def failed(phase: str, message: str, code: str = "ServiceError") -> Ending:
    return with_error(phase, {"code": code, "message": message})


def with_error(phase: str, error: Json) -> Ending:
    return Ending("failed", phase, error=error, failed_at=datetime.now(UTC).isoformat())


def unknown(rank: int, log: str) -> Ending:
    """Report of a script whose wait status is lost."""
    said = "It is not known how the script ended: the process that waits for its exit status was killed."
    report = failed("Running", said)
    report.lost, report.rank, report.log = True, rank, log
    return report


def add_failure(report: Ending, message: str) -> None:
    """Add a failure: a completed task becomes failed, a failed one's error gets the message too."""
    if report.outcome == "canceled":
        report.warnings.append(message)
    elif report.error is None:
        report.outcome, report.error = "failed", {"code": "ServiceError", "message": message}
    else:
        report.error["message"] = f"{report.error['message'].rstrip('.')}. {message}"


def ended_by_itself(status: int, log: Path, *, rank: int, memory_ran_out: bool) -> Ending:
    """Report how the script ended, from its wait status and the tail of its log."""
    tail = last_of(log)
    code = os.waitstatus_to_exitcode(status)
    report = Ending("completed" if code == 0 else "failed", "Running", exit_code=code, rank=rank)
    if code == 0:
        return report
    report.failed_at = datetime.now(UTC).isoformat()
    report.tail = "\n".join(tail.splitlines()[-_TAIL_LINES:])
    if code < 0:
        report.signal, report.exit_code = -code, 128 - code
        report.oom = memory_ran_out and report.signal == signal.SIGKILL
        message = _killed(report.signal, report.oom)
    else:
        raised = last_raised(tail)
        message = f"User program failed with {raised}" if raised else f"User program failed with exit code {code}."
        if not raised and (refused := _refused_arguments(code, tail)):
            message = f"User program failed with exit code {code}: {refused}"
        if advice := next_step(raised):
            message = f"{message.rstrip('.')}. {advice}"
    report.error = {"code": "UserError", "message": message}
    return report


def last_lines_of(log: Path) -> Json:
    """Last lines of a rank's log, and the last exception in it."""
    tail = last_of(log)
    return {"tail": "\n".join(tail.splitlines()[-_TAIL_LINES:]), "raised": last_raised(tail)}


def last_raised(text: str) -> str:
    """`Type: text` of the last traceback; "" when there is none."""
    start = text.rfind(_TRACEBACK)
    if start < 0:
        return ""
    # Frames are indented; the first line that is not names the exception.
    lines = text[start + len(_TRACEBACK) :].splitlines()
    for number, line in enumerate(lines):
        found = _RAISED.fullmatch(line.rstrip())
        if found:
            said = _message_of_v1(found[1], lines[number + 1 :]) if found[2] == f"{found[1]}:" else found[2]
            return f"{found[1]}: {said}" if said else found[1]
    return ""


def _refused_arguments(code: int, text: str) -> str:
    """argparse's message, `train.py: error: unrecognized arguments: --lr`, if it ended the script; else ""."""
    last = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
    return last[:_LONGEST_LINE] if code == _WRONG_USAGE and ": error: " in last else ""


def _message_of_v1(name: str, lines: list[str]) -> str:
    """Message of an SDK v1 exception: these print their name first, and the message on the next line."""
    return lines[0].strip().removeprefix("Message: ") if lines else f"{name}:"


def last_of(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            return file.read(_TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def said_of(status: int) -> str:
    """Describe a wait status: exit code or signal."""
    code = os.waitstatus_to_exitcode(status)
    return f"exit code {code}" if code >= 0 else f"killed by signal {_named(-code)}"


def _named(number: int) -> str:
    try:
        return f"{number} ({signal.Signals(number).name})"
    except ValueError:
        return f"{number} (an unnamed signal)"


def said_of_rank(report: Ending, raised: str) -> str:
    """Error message for a rank whose wait status this node does not have."""
    if raised:
        return f"User program failed with {raised}"
    if report.signal is not None:
        return _killed(report.signal, report.oom)
    return f"User program failed with exit code {report.exit_code}."


def _killed(number: int, oom: bool) -> str:
    killed = f"User program was killed by signal {_named(number)}"
    if oom:
        return f"{killed}: the machine ran out of memory. Use smaller batches or a larger machine."
    if number == signal.SIGKILL:
        return f"{killed} (out of memory?)."
    return f"{killed}."
