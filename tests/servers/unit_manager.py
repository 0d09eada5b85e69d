"""Does with the processes of a unit what systemd does, without root: `python unit_manager.py` reads one JSON object a
line and answers each with one.

`{"op": "start", "command", "variables", "umask"}` starts the main process. `{"op": "stop", "kill_mode", "seconds"}`
signals as systemd.kill(5) says for that KillMode. `{"op": "processes"}` lists the unit. Its end kills all.

A unit is a cgroup: whatever its processes start stays in it, also what calls setsid or is orphaned. This process is the
subreaper of all that, so its descendants are the same set.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36


class Unit:
    def __init__(self) -> None:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._main: subprocess.Popen[bytes] | None = None

    def start(self, command: list[str], variables: dict[str, str], umask: int) -> dict:
        self._main = subprocess.Popen(
            command, env=variables, umask=umask, cwd=variables["RUNYARD_HOME"], stdin=subprocess.DEVNULL
        )
        return {"main": self._main.pid}

    def stop(self, kill_mode: str, seconds: float) -> dict:
        assert self._main is not None
        everything = kill_mode == "control-group"
        self._signal(signal.SIGTERM, everything)
        self._wait(seconds, everything)
        if kill_mode != "process":
            self._signal(signal.SIGKILL, everything=True)
            self._wait(seconds, everything=True)
        elif self._main.poll() is None:
            self._main.kill()
            self._main.wait()
        return {"code": self._main.returncode}

    def processes(self) -> dict:
        return {"processes": sorted(self._group())}

    def kill(self) -> None:
        ends_at = time.monotonic() + 10
        while self._group() and time.monotonic() < ends_at:
            self._signal(signal.SIGKILL, everything=True)
            self._reap()

    def _signal(self, number: int, everything: bool) -> None:
        for pid in self._group() if everything else [self._main.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _wait(self, seconds: float, everything: bool) -> None:
        ends_at = time.monotonic() + seconds
        while (self._group() if everything else self._main.poll() is None) and time.monotonic() < ends_at:
            self._reap()
            time.sleep(0.01)
        self._reap()

    def _reap(self) -> None:
        """Orphans that have ended; the main process is Popen's."""
        for pid in [pid for pid, (parent, state) in _table().items() if parent == os.getpid() and state == "Z"]:
            if pid != self._main.pid:
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
        self._main.poll()

    def _group(self) -> set[int]:
        table, found, todo = _table(), set(), {os.getpid()}
        while todo:
            todo = {pid for pid, (parent, _) in table.items() if parent in todo} - found
            found |= todo
        return {pid for pid in found if table[pid][1] != "Z"}


def _table() -> dict[int, tuple[int, str]]:
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with suppress(OSError, ValueError):
                state, parent = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()[:2]
                found[int(entry)] = (int(parent), state)
    return found


if __name__ == "__main__":
    unit = Unit()
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(getattr(unit, asked.pop("op"))(**asked)), flush=True)
    unit.kill()
