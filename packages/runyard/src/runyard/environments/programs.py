import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

Say = Callable[[str], None]


@dataclass(frozen=True)
class Spoken:
    """How a program ended, and every line it said."""

    exit_code: int
    words: list[str]


def run_saying(
    command: Sequence[str], say: Say, *, env: Mapping[str, str], cwd: Path, held: Sequence[int] = ()
) -> Spoken:
    """Run a program to its end; its lines go to `say` as they come. Locks of the descriptors `held` stay taken while
    it lives, even if we are killed. OSError when it cannot be started."""
    words: list[str] = []
    process = subprocess.Popen(
        command,
        env=dict(env),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=held,
        text=True,
        errors="replace",
    )
    with process:
        assert process.stdout
        for line in process.stdout:
            words.append(line.rstrip("\n"))
            say(words[-1])
    return Spoken(process.returncode, words)
