import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from runyard.node.processes import prefer_for_out_of_memory


@dataclass(frozen=True)
class Start:
    """Command, environment and places of a process to be started."""

    name: str
    command: list[str]
    variables: dict[str, str]
    """Its whole environment."""
    folder: str
    log: str


def start(one: Start, enter: Callable[[], None] | None = None) -> int:
    """Start the process in a session of its own and return its pid. Raises OSError.

    Its output goes straight into a file: it needs nobody to go on. `enter` is called in the new process before it
    becomes the program. Who calls this reaps it.
    """
    try:
        with Path(one.log).open("ab", buffering=0) as output:
            process = subprocess.Popen(
                one.command,
                cwd=one.folder,
                env=one.variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=enter,
            )
    except subprocess.SubprocessError as e:
        raise OSError("the run's own network is gone") from e
    process.returncode = 0  # Popen must not reap it.
    prefer_for_out_of_memory(process.pid)
    return process.pid
