import subprocess
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from runyard.planning.passwords import hidden

Say = Callable[[str], None]
LONGEST_LINE = 4096
LOUDEST = 8 * 2**20
FIRST_WORDS, LAST_WORDS = 200, 2000


@dataclass(frozen=True)
class Spoken:
    """Exit code and output of a program; of long output, the first and the last lines."""

    exit_code: int
    lines: list[str]


class RunProgram(Protocol):
    """Runs a program to its end; see `run_program`."""

    def __call__(
        self, command: Sequence[str], log: Say, *, env: Mapping[str, str], cwd: Path, held: Sequence[int] = ()
    ) -> Spoken: ...


def run_saying(
    command: Sequence[str], log: Say, *, env: Mapping[str, str], cwd: Path, held: Sequence[int] = ()
) -> Spoken:
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
        lines = listen(process.stdout, log)
    return Spoken(process.returncode, lines)


def listen(output: IO[bytes], log: Say) -> list[str]:
    """Read the output to its end, pass each line to `log`, and return the lines that are kept."""
    bounded = _Heard(log)
    for line in _lines(output):
        bounded.take(hidden(line))
    return bounded.lines


class _Heard:
    """Bounds the output of a program, in the log and in memory."""

    def __init__(self, log: Say) -> None:
        self._log, self._left = log, LOUDEST
        self._first: list[str] = []
        self._last: deque[str] = deque(maxlen=LAST_WORDS)

    @property
    def lines(self) -> list[str]:
        return [*self._first, *self._last]

    def take(self, line: str) -> None:
        kept = self._first if len(self._first) < FIRST_WORDS else self._last
        kept.append(line)
        if self._left <= 0:
            return
        self._left -= len(line) + 1
        self._log(line)
        if self._left <= 0:
            self._log(f"This program has said more than {LOUDEST // 2**20} MiB; the rest is left out.")


def _lines(stream: IO[bytes]) -> Iterator[str]:
    whole = True
    while piece := stream.readline(LONGEST_LINE):
        if whole:
            yield piece.rstrip(b"\r\n").decode("utf-8", "replace")
        whole = piece.endswith(b"\n")
