import sys
from pathlib import Path

import pytest

from runyard.core.errors import EngineError
from runyard.node.processes.detached import DetachedProcess


def started(folder: Path, program: str) -> None:
    process = DetachedProcess("node agent", folder / "log", another=3)
    process.start(lambda told: [sys.executable, "-c", program], {})


def test_one_that_is_killed_while_it_starts_may_be_started_again(tmp_path: Path) -> None:
    started(tmp_path, "import os; os.kill(os.getpid(), 9)")


def test_one_that_ends_by_itself_is_told_with_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="The node agent ended with 1: why"):
        started(tmp_path, "raise SystemExit('why')")
