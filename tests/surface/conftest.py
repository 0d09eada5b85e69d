import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from azureml.core import Workspace


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """A workspace of a service that the SDK starts for this module and that is stopped after it."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RUNYARD_HOME", str(home))
        patch.delenv("RUNYARD_URL", raising=False)
        yield Workspace.create("assets", exist_ok=True)
        runyard = Path(sys.executable).with_name("runyard")
        subprocess.run([runyard, "down"], env=dict(os.environ), check=True, capture_output=True)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of a test's user."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
