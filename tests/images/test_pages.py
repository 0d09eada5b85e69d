import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.environments.containers.engine import ContainerEngine
from tests.conftest import end_home
from tests.docs.markdown import engine_blocks, lay_out

pytestmark = pytest.mark.images
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def variables(docker: ContainerEngine, debian: str, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Of a user whose engine has the image that pages and examples start from."""
    docker.images.tag(debian, "debian:12")
    yield {**os.environ, "RUNYARD_HOME": str(tmp_path / "home"), "DOCKER_HOST": docker.address}
    end_home(tmp_path / "home")


def test_the_page_of_environments_runs_where_there_is_an_engine(variables: dict[str, str], tmp_path: Path) -> None:
    program = lay_out(engine_blocks(REPOSITORY / "docs" / "environments.md"), tmp_path)
    shown = printed([sys.executable, "-c", program], variables, tmp_path)
    assert "in an image" in shown


def test_the_example_trains_in_an_image_of_its_own(variables: dict[str, str], tmp_path: Path) -> None:
    shown = printed([sys.executable, str(REPOSITORY / "examples" / "image" / "submit.py")], variables, tmp_path)
    assert "on Debian GNU/Linux" in shown
    assert "'best_rate': 1.0" in shown


def printed(command: list[str], variables: dict[str, str], folder: Path) -> str:
    done = subprocess.run(
        command, cwd=folder, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout
    return done.stdout
