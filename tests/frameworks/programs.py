import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

LIMIT_SECONDS = 600


def printed_by(command: Sequence[object], folder: Path, variables: Mapping[str, str]) -> str:
    """All that a program printed, which must succeed."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env=dict(variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout
