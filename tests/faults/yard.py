"""A home folder of its own, driven through the public SDK as a user would, with the processes behind it in reach."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from azureml.core import Environment, Experiment, Run, ScriptRunConfig, Workspace
from runyard_sdk.client import Client, quoted
from tests.processes import pids, words_of

DEADLINE_SECONDS = 120
ENDED = ("Completed", "Failed", "Canceled")
T = TypeVar("T")


class Yard:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = Path(os.environ["RUNYARD_HOME"])
        self.workspace = Workspace.create(name="faults", exist_ok=True)

    def config(self, script: str, *, arguments: tuple[Any, ...] = (), **options: Any) -> ScriptRunConfig:
        """A run of `script` (its text) on this interpreter."""
        folder = self.root / f"source-{len(list(self.root.iterdir()))}"
        folder.mkdir(parents=True)
        (folder / "train.py").write_text(script, encoding="utf-8")
        options.setdefault("environment", this_python())
        given = [str(argument) if isinstance(argument, Path) else argument for argument in arguments]
        return ScriptRunConfig(source_directory=str(folder), script="train.py", arguments=given, **options)

    def submit(self, script: str, *, arguments: tuple[Any, ...] = (), **options: Any) -> Run:
        return self.submit_config(self.config(script, arguments=arguments, **options))

    def submit_config(self, config: Any, experiment: str = "faults") -> Run:
        return Experiment(self.workspace, experiment).submit(config)

    def finish(self, script: str, **options: Any) -> Run:
        """Submit and wait for any end, good or bad."""
        return ended(self.submit(script, **options))

    def delete(self, run: Run) -> None:
        """As `runyard runs delete` and `runyard gc` do."""
        service = Client()
        service.delete("/runs/" + quoted(run.id))
        service.post("/gc", {"older_than_seconds": 0})

    def restart(self) -> None:
        """Any call of the SDK starts a service where there is none."""
        Workspace.get(name="faults")

    def pid_of(self, victim: str, run: Run) -> int:
        """The process behind a run. Waits until there is one."""
        return eventually(lambda: self.find_pid(victim, run), f"a {victim} of {run.id}")

    def kill(self, victim: str, run: Run) -> None:
        kill(self.pid_of(victim, run))

    def find_pid(self, victim: str, run: Run) -> int | None:
        """None while there is no such process. The "keeper" is the agent's parent, which stays as long as that."""
        agent = self.home / "agent.json"
        place = {"service": self.home / "service.json", "agent": agent, "keeper": agent}.get(victim)
        if place is None:
            attempts = sorted(self.home.glob(f"attempts/{run.id}.*/supervisor.json"), key=lambda p: p.stat().st_mtime)
            place = attempts[-1] if attempts else None
        pid = _pid_in(place, "keeper" if victim == "keeper" else "pid") if place else None
        return pid if pid and is_alive(pid) else None

    def processes(self) -> list[int]:
        """Every other process that works on this home: told by its variables, its command line or its files."""
        needle = str(self.home).encode()
        others = (pid for pid in pids() if pid != os.getpid())
        return [pid for pid in others if any(needle in text for text in words_of(pid))]

    def close(self) -> None:
        # Agents start supervisors, which start scripts: one pass may miss what a victim was just starting.
        for _ in range(3):
            for pid in self.processes():
                kill(pid, wait=False)


def this_python() -> Environment:
    environment = Environment("this-python")
    environment.python.user_managed_dependencies = True
    environment.python.interpreter_path = sys.executable
    return environment


def ended(run: Run) -> Run:
    run.wait_for_completion(raise_on_error=False)
    eventually(lambda: run.get_status() in ENDED, f"the end of {run.id}")
    return run


def message_of(run: Run) -> str:
    return str(run.get_details()["error"]["error"]["message"])


def eventually(look: Callable[[], T], what: str, seconds: float = DEADLINE_SECONDS) -> T:
    """The first true answer of `look`; a TimeoutError naming `what` when there is none."""
    ends_at = time.monotonic() + seconds
    while True:
        if answer := look():
            return answer
        if time.monotonic() > ends_at:
            raise TimeoutError(f"No sign of {what} within {seconds} s.")
        time.sleep(0.01)


def kill(pid: int, *, wait: bool = True) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    if wait:
        eventually(lambda: not is_alive(pid), f"the end of process {pid}", 10)


def is_alive(pid: int) -> bool:
    """A zombie is dead: only its parent has not looked yet."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] not in "ZX"
    return False


def _pid_in(file: Path, field: str) -> int | None:
    with suppress(OSError, ValueError, KeyError, TypeError):
        return int(json.loads(file.read_text(encoding="utf-8"))[field])
    return None
