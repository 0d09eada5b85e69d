import itertools
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
def experiment(workspace: Workspace) -> Experiment:
    return Experiment(workspace, "story")
