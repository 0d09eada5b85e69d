import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from seeds.mirror import mirrored

from tests.frameworks.programs import printed_by

REPOSITORY = Path(__file__).parents[2]
SHARED = REPOSITORY.parent / "shared"
RUNYARD = Path(sys.executable).with_name("runyard")


@pytest.fixture(scope="session")
def environment(tmp_path_factory):
    """Variables of a fresh home, whose service is stopped in the end; MNIST comes from ../shared if it is there."""
    scratch = tmp_path_factory.mktemp("frameworks")
    temporary = scratch / "tmp"  # uv and torch leave files where TMPDIR says
    temporary.mkdir()
    web = mirrored(SHARED, scratch / "certificates") if SHARED.is_dir() else contextlib.nullcontext({})
    with web as proxy:
        variables = {**os.environ, **proxy, "RUNYARD_HOME": str(scratch / "home"), "TMPDIR": str(temporary)}
        yield variables
        subprocess.run([RUNYARD, "down"], env=variables, check=True, timeout=60)


@pytest.fixture
def submit(environment, tmp_path):
    """Run an example's submit.py as a user does; return what it printed."""

    def submit_example(name, *arguments):
        script = REPOSITORY / "examples" / name / "submit.py"
        return printed_by([sys.executable, script, *arguments], tmp_path, environment)

    return submit_example


@pytest.fixture
def runyard(environment):
    """Run the command line; return what it printed."""

    def command(*words):
        done = subprocess.run(
            [RUNYARD, *words], env=environment, capture_output=True, text=True, timeout=60, check=True
        )
        return done.stdout

    return command
