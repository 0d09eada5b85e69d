"""`python -m bench.service_cpu [RUNS]`: the service's CPU for one tiny run, by part.

The service is started here with the public methods of its parts wrapped: each adds the CPU time of its thread to its
own part, without what it calls in other parts. What no part accounts for is HTTP: uvicorn, routing, bodies, answers.
"""

import functools
import importlib
import inspect
import json
import os
import pkgutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

PARTS = {
    "policy": ("runyard.core.policy", "runyard.access"),
    "store": ("runyard.storage.sql",),
    "blobs": ("runyard.storage.blobs",),
    "controller": ("runyard.runs.scheduling", "runyard.runs.kinds", "runyard.runs.launch", "runyard.compute"),
    "use cases": ("runyard.runs", "runyard.assets", "runyard.data", "runyard.environments.workspace", "runyard.models"),
}
WAIT_SECONDS = 30.0


class Clock:
    """CPU seconds by part, of all threads."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self._thread = threading.local()

    def wrap(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*given: Any, **named: Any) -> Any:
            within = self._switch(part)
            try:
                return function(*given, **named)
            finally:
                self._switch(within)

        return timed

    def _switch(self, part: str | None) -> str | None:
        now = time.thread_time()
        before: str | None = getattr(self._thread, "part", None)
        if before is not None:
            self.seconds[before] += now - self._thread.since
        self._thread.part, self._thread.since = part, now
        return before


def main() -> None:
    if sys.argv[1:2] == ["--serve"]:
        sys.exit(_serve(Path(sys.argv[2])))
    runs = int(sys.argv[1]) if sys.argv[1:] else 200
    with tempfile.TemporaryDirectory(prefix="runyard-bench-") as folder, redirect_stdout(sys.stderr):
        os.environ["RUNYARD_HOME"] = f"{folder}/home"
        table = _measure(Path(folder), runs)
    print(json.dumps({"bench": "service CPU for a tiny run", "unit": "ms", "runs": runs, **table}))


def _measure(folder: Path, runs: int) -> dict[str, float]:
    from bench.home import Home

    taken = folder / "taken.json"
    command = [sys.executable, "-m", "bench.service_cpu", "--serve", str(taken)]
    with subprocess.Popen(command, stdout=sys.stderr) as service:
        try:
            _await(lambda: (folder / "home" / "service.json").exists())
            home = Home(folder)
            config = home.config("tiny", "")
            for _ in range(10):
                home.submit(config).wait_for_completion()
            before = _take(service.pid, taken)
            for _ in range(runs):
                home.submit(config).wait_for_completion()
            after = _take(service.pid, taken)
        finally:
            service.terminate()
    spent = {part: (after[part] - before[part]) / runs * 1000 for part in after}
    whole = spent.pop("whole")
    rounded = {part: round(value, 2) for part, value in {"HTTP": whole - sum(spent.values()), **spent}.items()}
    return {"whole": round(whole, 2), **rounded}


def _take(pid: int, taken: Path) -> dict[str, float]:
    taken.unlink(missing_ok=True)
    os.kill(pid, signal.SIGUSR1)
    _await(taken.exists)
    table: dict[str, float] = json.loads(taken.read_text(encoding="utf-8"))
    return table


def _await(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            raise SystemExit("The service did not answer.")
        time.sleep(0.02)


def _serve(taken: Path) -> int:
    clock = Clock()
    wrapped: set[type] = set()
    for part, packages in PARTS.items():
        for name in (module for package in packages for module in _modules(package)):
            _wrap_classes(clock, part, name, wrapped)

    def write(*_: object) -> None:
        beside = taken.with_suffix(".new")
        beside.write_text(json.dumps({"whole": time.process_time(), **clock.seconds}), encoding="utf-8")
        beside.rename(taken)

    signal.signal(signal.SIGUSR1, write)
    from runyard.server.lifecycle.process import main as serve

    return serve(["--keep"])


def _modules(package: str) -> list[str]:
    root = importlib.import_module(package)
    below = pkgutil.walk_packages(getattr(root, "__path__", []), f"{package}.")
    return [package, *(found.name for found in below if "migrations" not in found.name and ".ray" not in found.name)]


def _wrap_classes(clock: Clock, part: str, module_name: str, wrapped: set[type]) -> None:
    module = importlib.import_module(module_name)
    for kind in vars(module).values():
        if not inspect.isclass(kind) or kind.__module__ != module_name or kind in wrapped:
            continue
        wrapped.add(kind)
        for name, function in list(vars(kind).items()):
            is_entered = name == "_work" or not name.startswith("_")  # _work: the controller's thread
            is_plain = inspect.isfunction(function) and not inspect.isgeneratorfunction(function)
            if is_entered and is_plain and not inspect.iscoroutinefunction(function):
                setattr(kind, name, clock.wrap(part, function))


if __name__ == "__main__":
    main()
