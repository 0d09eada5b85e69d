"""Stack dumps by py-spy, appended to the logs of ranks whose time limit was reached."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from runyard.node.processes.procfs import ProcessId

DUMP_SECONDS = 2.0
_MOST_PROCESSES = 32
_LONGEST_DUMP_BYTES = 256 << 10


def dump_stacks(processes: Iterable[ProcessId], std: Path) -> list[str]:
    """Append a stack dump of each Python process of the script, or why there is none, to its log in `std`.

    Returns the names of the logs. Takes little more than DUMP_SECONDS.
    """
    wanted = [(process.pid, log) for process in processes if (log := _log_of(process.pid, std)) is not None]
    pythons = [(pid, log) for pid, log in sorted(wanted) if _is_python(pid)][:_MOST_PROCESSES]
    with ThreadPoolExecutor(max_workers=max(1, len(pythons))) as pool:
        dumps = list(pool.map(lambda found: dump_stack(found[0]), pythons))
    for (pid, log), text in zip(pythons, dumps, strict=True):
        with log.open("a", encoding="utf-8") as file:
            file.write(f"\nRunyard: what process {pid} was doing when the run's time was up:\n{text.rstrip()}\n")
    return sorted({log.name for _, log in pythons})


def dump_stack(pid: int) -> str:
    """Stack dump of a Python process, or why there is none. Takes at most DUMP_SECONDS."""
    program = find_py_spy()
    if program is None:
        return "not known: py-spy is not installed on this node. Run: pip install py-spy"
    try:
        done = subprocess.run(
            [program, "dump", "--pid", str(pid)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=DUMP_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"not known: py-spy took longer than {DUMP_SECONDS:.0f} s."
    except OSError as e:
        return f"not known: py-spy could not be started: {e}."
    if done.returncode == 0:
        return done.stdout[:_LONGEST_DUMP_BYTES].decode("utf-8", "replace")
    reason = done.stderr.decode("utf-8", "replace").strip() or f"py-spy ended with {done.returncode}"
    return f"not known: {reason}"


def find_py_spy() -> str | None:
    beside = Path(sys.executable).parent / "py-spy"
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("py-spy")


def _log_of(pid: int, std: Path) -> Path | None:
    try:
        target = Path(os.readlink(f"/proc/{pid}/fd/1"))
    except OSError:
        return None
    return target if target.parent == std.resolve() else None


def _is_python(pid: int) -> bool:
    try:
        return Path(os.readlink(f"/proc/{pid}/exe")).name.startswith("python")
    except OSError:
        return False
