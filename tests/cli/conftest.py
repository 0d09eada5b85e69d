import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import end_home
from tests.forked_processes import ForkServer

RUNYARD = Path(sys.executable).with_name("runyard")


_FORKED_OPTIONS = {"input", "env", "cwd", "timeout"}


class Shell:
    """The real command, in a home of its own, outside a terminal unless a test gives it one."""

    def __init__(self, home: Path, folder: Path, forks: ForkServer) -> None:
        self.home, self.folder, self._forks = home, folder, forks
        self.variables = {**os.environ, "RUNYARD_HOME": str(home), "TZ": "UTC", "COLUMNS": "200"}

    def __call__(self, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
        return self._run([str(RUNYARD), *map(str, arguments)], options)

    def python(self, script: str) -> str:
        """What a program of a user prints in this home."""
        done = self._run([sys.executable, "-c", script], {})
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _run(self, command: list[str], options: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        settings: dict[str, Any] = {"timeout": 120, "cwd": self.folder, "env": self.variables, **options}
        if command[0] == str(RUNYARD) and settings.keys() <= _FORKED_OPTIONS:
            return self._forks.run(command, **settings)
        return subprocess.run(command, capture_output=True, text=True, **settings)


@pytest.fixture(scope="session")
def shell(tmp_path_factory: pytest.TempPathFactory, fork_server: ForkServer) -> Iterator[Shell]:
    folder = tmp_path_factory.mktemp("cli")
    opened = Shell(folder / "home", folder, fork_server)
    yield opened
    end_home(opened.home)


@pytest.fixture(scope="session")
def runs(shell: Shell) -> dict[str, str]:
    """The ids of one run that completed, with a model from it, and one that failed."""
    (shell.folder / "source").mkdir()
    (shell.folder / "source" / "good.py").write_text(GOOD, encoding="utf-8")
    (shell.folder / "source" / "bad.py").write_text("print('going')\nraise ValueError('no data')", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", SUBMIT],
        capture_output=True,
        text=True,
        env=shell.variables,
        cwd=shell.folder,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    good, bad = done.stdout.split()[-2:]
    return {"good": good, "bad": bad}


GOOD = """
import os
from azureml.core import Run
run = Run.get_context()
run.log("accuracy", 0.75)
run.tag("colour", "blue")
print("a line of the log")
os.makedirs("outputs", exist_ok=True)
open("outputs/model.txt", "w").write("weights")
"""
SUBMIT = """
from azureml.core import Environment, Experiment, ScriptRunConfig, Workspace
workspace = Workspace.from_config()
here = Environment("here")
here.python.user_managed_dependencies = True
good, bad = (
    Experiment(workspace, "cli").submit(ScriptRunConfig("source", script, environment=here))
    for script in ("good.py", "bad.py")
)
good.wait_for_completion()
bad.wait_for_completion(raise_on_error=False)
good.register_model("net", model_path="outputs/model.txt", tags={"stage": "test"})
print(good.id, bad.id)
"""
