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
    """How an attempt ended, as it is reported."""

    outcome: str
    phase: str
    exit_code: int | None = None
    signal: int | None = None
    oom: bool = False
    error: Json | None = None
    rank: int | None = None
    """None where no single rank is to blame."""
    tail: str = ""
    warnings: list[str] = field(default_factory=list)
    failed_at: str | None = None
    """When the process that failed was seen to end: the report comes after the logs."""
    log: str = ""
    """Of the process that failed."""
    failed_node: int | None = None
    """Where it was, if not here."""
    exits: dict[str, list[int | None]] = field(default_factory=dict)
    """Exit code and signal of each rank as far as they are known."""
    last_lines: dict[str, Json] = field(default_factory=dict)
    """Of ranks that a launcher on another node answers for."""
    outputs: dict[str, int] = field(default_factory=dict)
    """How many files each output of a run on several nodes has by now: the service saves them when all nodes ended."""
    lost: bool = False
    """The supervisor was killed, so nobody knows how the processes would have ended."""


def canceled(phase: str, why: str = "") -> Ending:
    error = {"code": "UserError", "message": why} if why else None
    return Ending("canceled", phase, error=error)


def as_told(end_as: str, phase: str) -> Ending:
    """The end of a part that was told to stop, which has no error of its own."""
    return Ending(end_as, phase, exit_code=0 if end_as == "completed" else None)


def obstacle(error: OSError) -> str:
    """The reason as a sentence, with the next step where the disk is full."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{error}. The disk is full: free space there, for instance with `runyard gc`, then submit again."
    return f"{error}."


def failed(phase: str, message: str, code: str = "ServiceError") -> Ending:
    return with_error(phase, {"code": code, "message": message})


def with_error(phase: str, error: Json) -> Ending:
    return Ending("failed", phase, error=error, failed_at=datetime.now(UTC).isoformat())


def unknown(rank: int, log: str) -> Ending:
    """The end of a script that nobody saw."""
    said = "It is not known how the script ended: the process that waits for its exit status was killed."
    ending = failed("Running", said)
    ending.lost, ending.rank, ending.log = True, rank, log
    return ending


def add_failure(ending: Ending, message: str) -> None:
    """Something else went wrong as well: a completed run fails by it, a failed one's error names it too."""
    if ending.outcome == "canceled":
        ending.warnings.append(message)
    elif ending.error is None:
        ending.outcome, ending.error = "failed", {"code": "ServiceError", "message": message}
    else:
        ending.error["message"] = f"{ending.error['message'].rstrip('.')}. {message}"


def ended_by_itself(status: int, log: Path, *, rank: int, memory_ran_out: bool) -> Ending:
    """Judge the script's end by its wait status and the last of its log."""
    tail = last_of(log)
    code = os.waitstatus_to_exitcode(status)
    ending = Ending("completed" if code == 0 else "failed", "Running", exit_code=code, rank=rank)
    if code == 0:
        return ending
    ending.failed_at = datetime.now(UTC).isoformat()
    ending.tail = "\n".join(tail.splitlines()[-_TAIL_LINES:])
    if code < 0:
        ending.signal, ending.exit_code = -code, 128 - code
        ending.oom = memory_ran_out and ending.signal == signal.SIGKILL
        message = _killed(ending.signal, ending.oom)
    else:
        raised = last_raised(tail)
        message = f"User program failed with {raised}" if raised else f"User program failed with exit code {code}."
        if not raised and (refused := _refused_arguments(code, tail)):
            message = f"User program failed with exit code {code}: {refused}"
        if advice := next_step(raised):
            message = f"{message.rstrip('.')}. {advice}"
    ending.error = {"code": "UserError", "message": message}
    return ending


def last_lines_of(log: Path) -> Json:
    """The last lines of a rank's log, and what was raised last in it."""
    tail = last_of(log)
    return {"tail": "\n".join(tail.splitlines()[-_TAIL_LINES:]), "raised": last_raised(tail)}


def last_raised(text: str) -> str:
    """`Type: text` of the last traceback, "" when there is none."""
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
    """argparse's own line, `train.py: error: unrecognized arguments: --lr`, where it ended the script."""
    last = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
    return last[:_LONGEST_LINE] if code == _WRONG_USAGE and ": error: " in last else ""


def _message_of_v1(name: str, lines: list[str]) -> str:
    """The exceptions of SDK v1 print their own name first and what happened on the next line."""
    return lines[0].strip().removeprefix("Message: ") if lines else f"{name}:"


def last_of(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            return file.read(_TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def said_of(status: int) -> str:
    """How a process ended, by its wait status."""
    code = os.waitstatus_to_exitcode(status)
    return f"exit code {code}" if code >= 0 else f"killed by signal {_named(-code)}"


def _named(number: int) -> str:
    try:
        return f"{number} ({signal.Signals(number).name})"
    except ValueError:
        return f"{number} (an unnamed signal)"


def said_of_rank(ending: Ending, raised: str) -> str:
    """The error of a rank whose wait status nobody here has."""
    if raised:
        return f"User program failed with {raised}"
    if ending.signal is not None:
        return _killed(ending.signal, ending.oom)
    return f"User program failed with exit code {ending.exit_code}."


def _killed(number: int, oom: bool) -> str:
    killed = f"User program was killed by signal {_named(number)}"
    if oom:
        return f"{killed}: the machine ran out of memory. Use smaller batches or a larger machine."
    if number == signal.SIGKILL:
        return f"{killed} (out of memory?)."
    return f"{killed}."
