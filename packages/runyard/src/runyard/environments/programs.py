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
    """How a program ended, and what it said: all of it, or the first and the last lines where that is much."""

    exit_code: int
    words: list[str]


class RunProgram(Protocol):
    """Runs a program to its end, as `run_saying` does."""

    def __call__(
        self, command: Sequence[str], say: Say, *, env: Mapping[str, str], cwd: Path, held: Sequence[int] = ()
    ) -> Spoken: ...


def run_saying(
    command: Sequence[str], say: Say, *, env: Mapping[str, str], cwd: Path, held: Sequence[int] = ()
) -> Spoken:
    """Run a program to its end; its lines go to `say` as they come, without the passwords of addresses in them. Of
    long lines the rest is left out, and so is what comes after 8 MiB. Locks of the descriptors `held` stay taken
    while it lives, even if we are killed. OSError when it cannot be started."""
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
        words = listen(process.stdout, say)
    return Spoken(process.returncode, words)


def listen(output: IO[bytes], say: Say) -> list[str]:
    """What a program prints, to its end: line by line to `say`, within bounds and without passwords, and all of it that
    is kept."""
    heard = _Heard(say)
    for line in _lines(output):
        heard.take(hidden(line))
    return heard.words


class _Heard:
    """What a program says, within bounds: one that prints without end fills neither the log nor the memory."""

    def __init__(self, say: Say) -> None:
        self._say, self._left = say, LOUDEST
        self._first: list[str] = []
        self._last: deque[str] = deque(maxlen=LAST_WORDS)

    @property
    def words(self) -> list[str]:
        return [*self._first, *self._last]

    def take(self, line: str) -> None:
        kept = self._first if len(self._first) < FIRST_WORDS else self._last
        kept.append(line)
        if self._left <= 0:
            return
        self._left -= len(line) + 1
        self._say(line)
        if self._left <= 0:
            self._say(f"This program has said more than {LOUDEST // 2**20} MiB; the rest is left out.")


def _lines(stream: IO[bytes]) -> Iterator[str]:
    whole = True
    while piece := stream.readline(LONGEST_LINE):
        if whole:
            yield piece.rstrip(b"\r\n").decode("utf-8", "replace")
        whole = piece.endswith(b"\n")
