"""A home folder of its own with a warm service, driven through the SDK."""

import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from azureml.core import Environment, Experiment, Run, ScriptRunConfig, Workspace
from runyard_sdk.client import Client


class Home:
    def __init__(self, root: Path) -> None:
        self.root, self.path = root, root / "home"
        self.workspace = Workspace.create(name="bench", exist_ok=True)
        self._experiment = Experiment(self.workspace, "bench")
        self.client = Client()

    def config(self, name: str, script: str, *arguments: object) -> ScriptRunConfig:
        """A run of `script` (its text) on this interpreter."""
        folder = self.root / "sources" / name
        folder.mkdir(parents=True)
        (folder / "script.py").write_text(script, encoding="utf-8")
        environment = Environment("this-python")
        environment.python.user_managed_dependencies = True
        environment.python.interpreter_path = sys.executable
        return ScriptRunConfig(
            source_directory=str(folder),
            script="script.py",
            arguments=[str(argument) for argument in arguments],
            environment=environment,
        )

    def submit(self, config: Any) -> Run:
        return self._experiment.submit(config)

    def close(self) -> None:
        for name in ("service.json", "agent.json", "gateway.json"):
            with suppress(OSError, ValueError, KeyError):
                pid = int(json.loads((self.path / name).read_text(encoding="utf-8"))["pid"])
                os.kill(pid, signal.SIGKILL)


@contextmanager
def open_home(beside: str | None = None) -> Iterator[Home]:
    """Set RUNYARD_HOME for the block and start a service there; end it, and remove the folder, afterwards.

    The folder lies in `beside`, else among the temporary ones.
    """
    before = os.environ.get("RUNYARD_HOME")
    with tempfile.TemporaryDirectory(prefix="runyard-bench-", dir=beside, ignore_cleanup_errors=True) as folder:
        os.environ["RUNYARD_HOME"] = f"{folder}/home"
        home = Home(Path(folder))
        try:
            yield home
        finally:
            home.close()
            if before is None:
                del os.environ["RUNYARD_HOME"]
            else:
                os.environ["RUNYARD_HOME"] = before
