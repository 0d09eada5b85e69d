"""A release as a user meets it: installed from its files into a fresh environment, away from the checkout."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from release.contents import SDK
from runyard.core.version import VERSION
from runyard.environments.interpreters import discover_interpreters

SCRIPT = "from azureml.core import Run\nRun.get_context().log('loss', 0.25)\nprint('hello from', __file__)\n"
SUBMIT = """
from azureml.core import Environment, Experiment, ScriptRunConfig, Workspace
here = Environment("here")
here.python.user_managed_dependencies = True
run = Experiment(Workspace.from_config(), "release").submit(ScriptRunConfig("source", "train.py", environment=here))
run.wait_for_completion()
assert run.get_metrics() == {"loss": 0.25}, run.get_metrics()
"""
LOOK = """
from azureml.core import Experiment, Workspace
(run,) = Experiment(Workspace.from_config(), "release").get_runs()
assert run.get_metrics() == {"loss": 0.25}, run.get_metrics()
"""
OF_THE_CHECKOUT = ("PYTHONPATH", "VIRTUAL_ENV", "SOURCE_DATE_EPOCH", "RUNYARD_HOME", "RUNYARD_URL", "RUNYARD_TOKEN")


def by_uv(uv: Path, environment: Path, out: Path) -> Path:
    call(uv, "venv", "--quiet", "--python", sys.executable, environment)
    python = environment / "bin" / "python"
    call(uv, "pip", "install", "--quiet", "--python", python, *_locked(out))
    return environment


def by_pip(environment: Path, out: Path) -> Path:
    call(sys.executable, "-m", "venv", environment)
    call(environment / "bin" / "python", "-m", "pip", "install", "--quiet", *_locked(out))
    return environment


def python_3_6(scratch: Path) -> Path | None:
    """The oldest Python that the SDK promises, where the product would find one for a run."""
    found = discover_interpreters(scratch / "interpreters.json", os.environ)
    return next((Path(one.path) for one in found if one.version[:2] == (3, 6)), None)


def sdk_by_pip(python: Path, environment: Path, out: Path) -> Path:
    """The SDK alone, by the pip that came with that interpreter."""
    call(python, "-m", "venv", environment)
    call(environment / "bin" / "python", "-m", "pip", "install", "--quiet", SDK.wheel(out))
    return environment


class Home:
    """A home of its own, with a service that `environment` starts."""

    def __init__(self, folder: Path, environment: Path) -> None:
        self._folder, self._environment = folder, environment
        self._own = {"RUNYARD_HOME": str(folder / "home"), "HOME": str(folder)}
        (folder / "source").mkdir(parents=True)
        (folder / "source" / "train.py").write_text(SCRIPT, encoding="utf-8")

    def runyard(self, *words: str) -> str:
        return call(self._environment / "bin" / "runyard", *words, cwd=self._folder, more=self._own)

    def try_a_run(self) -> None:
        said = self.runyard("--version")
        assert said.split()[-1] == VERSION, said
        call(self._environment / "bin" / "python", "-c", SUBMIT, cwd=self._folder, more=self._own)
        (listed,) = json.loads(self.runyard("runs", "list", "-o", "json"))
        assert listed["status"] == "Completed", listed

    def look_from(self, environment: Path) -> None:
        """From another Python, which finds the service by the home, then by address and token."""
        facts = json.loads((self._folder / "home" / "service.json").read_text(encoding="utf-8"))
        address = {"RUNYARD_URL": facts["url"], "RUNYARD_TOKEN": facts["token"], "HOME": str(self._folder)}
        for how in (self._own, address):
            call(environment / "bin" / "python", "-c", LOOK, cwd=self._folder, more=how)


@contextmanager
def home(folder: Path, environment: Path) -> Iterator[Home]:
    """The service is stopped at the end; the agent ends by itself once the folder is removed."""
    made = Home(folder, environment)
    try:
        yield made
    finally:
        made.runyard("down", "--services")


def call(*command: object, cwd: Path | None = None, more: Mapping[str, str] | None = None) -> str:
    """Run a program without the variables of this checkout and return its output. A failure ends the release."""
    variables = {name: value for name, value in os.environ.items() if name not in OF_THE_CHECKOUT}
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env={**variables, **(more or {})}, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}\n{done.stdout}{done.stderr}")
    return done.stdout


def _locked(out: Path) -> tuple[object, ...]:
    return ("--require-hashes", "--find-links", out, "--requirement", out / "requirements.lock")
