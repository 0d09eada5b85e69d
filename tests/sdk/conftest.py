import itertools
import tempfile
from pathlib import Path
from typing import Any

import pytest

from azureml.core import Experiment, Workspace

_numbers = itertools.count(1)


@pytest.fixture
def workspace(service: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Workspace:
    """A fresh workspace of the shared service, reached as a user's process reaches it."""
    monkeypatch.setenv("RUNYARD_HOME", service["home"])
    monkeypatch.chdir(tmp_path)
    return Workspace.create(f"sdk{next(_numbers)}", show_output=False)


@pytest.fixture
def own_temporary_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """For what leaves a temporary folder to its caller, as SDK v1 does."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture
def experiment(workspace: Workspace) -> Experiment:
    return Experiment(workspace, "story")
