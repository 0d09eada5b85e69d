import re
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import RUNYARD
from tests.storage.backup.conftest import Yard, yard

pytestmark = pytest.mark.slow

__all__ = ["yard"]

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"
SECTIONS = ("Backup", "Check", "Restore", "Moving runs")
TRAIN = "from azureml.core import Run\nRun.get_context().log('loss', 0.5)\n"
SUBMIT = """
from azureml.core import Environment, Experiment, ScriptRunConfig, Workspace
here = Environment("here")
here.python.user_managed_dependencies = True
run = Experiment(Workspace.from_config(), "page").submit(ScriptRunConfig("source", "train.py", environment=here))
run.wait_for_completion()
print(run.id)
"""


def commands_of(section: str) -> list[str]:
    text = PAGE.read_text(encoding="utf-8").partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return re.findall(r"^```bash\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.fixture
def run_id(yard: Yard) -> str:
    (yard.folder / "source").mkdir()
    (yard.folder / "source" / "train.py").write_text(TRAIN)
    return yard.python(SUBMIT).split()[-1]


def test_the_commands_on_backups_checks_and_moving_runs_do_what_the_page_says(yard, run_id):
    variables = {
        **yard.variables,
        "PATH": f"{RUNYARD.parent}:{yard.variables['PATH']}",
        "BACKUPS": str(yard.folder / "backups"),
        "RUN": run_id,
    }
    for section in SECTIONS:
        blocks = commands_of(section)
        assert blocks, section
        for block in blocks:
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", block],
                env=variables,
                cwd=yard.folder,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            assert done.returncode == 0, (block, done.stdout, done.stderr)
    assert yard.must("runs", "show", run_id)["status"] == "Completed"
