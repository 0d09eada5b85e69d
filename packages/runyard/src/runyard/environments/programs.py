import subprocess
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from runyard.core.url_secrets import redacted

LogLine = Callable[[str], None]
LONGEST_LINE = 4096
MOST_OUTPUT_BYTES = 8 * 2**20
FIRST_LINES, LAST_LINES = 200, 2000


@dataclass(frozen=True)
class ProgramResult:
    """Exit code and output of a program; of long output, the first and the last lines."""

    exit_code: int
    lines: list[str]


class RunProgram(Protocol):
    """Runs a program to its end; see `run_program`."""

    def __call__(
        self, command: Sequence[str], log: LogLine, *, env: Mapping[str, str], cwd: Path, held: Sequence[int] = ()
    ) -> ProgramResult: ...


def run_program(
    command: Sequence[str], log: LogLine, *, env: Mapping[str, str], cwd: Path, held: Sequence[int] = ()
) -> ProgramResult:
    """Run a program to its end and pass its output to `log`, line by line, with secrets of URLs redacted.

    Long lines are cut, and output after 8 MiB is not logged. The program inherits the descriptors `held`, so their
    locks stay taken while it runs, even if this process is killed. Raises OSError when it cannot be started."""
    process = subprocess.Popen(
        command,
        env=dict(env),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=held,
    )
    with process:
        assert process.stdout
        lines = read_output(process.stdout, log)
    return ProgramResult(process.returncode, lines)


def read_output(output: IO[bytes], log: LogLine) -> list[str]:
    """Read the output to its end, pass each line to `log`, and return the lines that are kept."""
    bounded = _BoundedOutput(log)
    for line in _lines(output):
        bounded.take(redacted(line))
    return bounded.lines


class _BoundedOutput:
    """Bounds the output of a program, in the log and in memory."""

    def __init__(self, log: LogLine) -> None:
        self._log, self._left = log, MOST_OUTPUT_BYTES
        self._first: list[str] = []
        self._last: deque[str] = deque(maxlen=LAST_LINES)

    @property
    def lines(self) -> list[str]:
        return [*self._first, *self._last]

    def take(self, line: str) -> None:
        kept = self._first if len(self._first) < FIRST_LINES else self._last
        kept.append(line)
        if self._left <= 0:
            return
        self._left -= len(line) + 1
        self._log(line)
        if self._left <= 0:
            self._log(f"This program has said more than {MOST_OUTPUT_BYTES // 2**20} MiB; the rest is left out.")


def _lines(stream: IO[bytes]) -> Iterator[str]:
    whole = True
    while piece := stream.readline(LONGEST_LINE):
        if whole:
            yield piece.rstrip(b"\r\n").decode("utf-8", "replace")
        whole = piece.endswith(b"\n")
