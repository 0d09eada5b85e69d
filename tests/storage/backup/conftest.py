import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runyard.storage.backup.folder import BackupFolder
from tests.cli.conftest import Shell
from tests.conftest import end_home
from tests.forked_processes import ForkServer
from tests.storage.backup.homes import Home
from tests.storage.backup.programs import DESCRIBE, FILL, SCORE, TRAIN


class Yard(Shell):
    """A home with the real command line, which can be thrown away and begun anew."""

    def fill(self) -> None:
        source = self.folder / "source"
        source.mkdir()
        (source / "train.py").write_text(TRAIN)
        (source / "score.py").write_text(SCORE)
        self.python(FILL)

    def described(self) -> Any:
        """All that a user can read of it, by the SDK."""
        return json.loads(self.python(DESCRIBE).splitlines()[-1])

    def must(self, *arguments: object) -> Any:
        """The answer of a command that must succeed, from its JSON."""
        done = self(*arguments, "-o", "json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def lose_home(self) -> None:
        end_home(self.home)
        shutil.rmtree(self.home)


@pytest.fixture
def yard(tmp_path: Path, fork_server: ForkServer) -> Iterator[Yard]:
    made = Yard(tmp_path / "home", tmp_path, fork_server)
    yield made
    end_home(made.home)


@pytest.fixture
def stores_home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path / "home")
    yield made
    made.stores.close()


@pytest.fixture
def folder(tmp_path: Path) -> BackupFolder:
    return BackupFolder(tmp_path / "backups")
