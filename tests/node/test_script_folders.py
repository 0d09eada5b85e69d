"""Scripts work apart from the plan and its tokens, with the umask of their user."""

import json
import os

import pytest

from runyard.core.plan_json import plan_to_json
from runyard.node.task_folder import TaskFolder
from runyard.storage.home import link_run_folders
from tests.node.conftest import a_plan, driver_log

WHERE = "import os; print(os.getcwd()); print(oct(os.umask(0))); open('made', 'w')"


@pytest.fixture
def umask(monkeypatch):
    monkeypatch.setattr("runyard.core.umask._given", [])  # a test before this one may have served from this process
    before = os.umask(0o027)
    yield 0o027
    os.umask(before)


def test_a_script_has_the_umask_of_its_user_and_the_agent_a_private_one(umask, submit, service, home):
    submit(WHERE)
    service.ended()
    assert driver_log(service).splitlines()[1] == "0o27"
    for name in ("agent.json", "agent.log", "agent.lock"):
        assert (home / name).stat().st_mode & 0o077 == 0, name


def test_the_plan_does_not_lie_in_a_folder_that_the_script_works_in(submit, service, home):
    gate = home / "gate"
    submit(
        f"import os, time\nprint(os.getcwd(), flush=True)\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)"
    )
    service.wait_for(lambda: "scripts/run1.1" in driver_log(service))
    folder = TaskFolder(home, "run1.1")
    assert driver_log(service).strip() == str(folder.work)
    assert {path.name for path in folder.scripts.iterdir()} == {"work", "std", "journals", "uploads"}
    assert (folder.root / "plan.json").stat().st_mode & 0o777 == 0o600
    assert folder.root.stat().st_mode & 0o777 == 0o700
    gate.touch()
    service.ended()
    service.wait_for(lambda: not folder.root.exists() and not folder.scripts.exists())


def test_a_script_works_where_the_operator_wants_it(submit, service, home, tmp_path):
    link_run_folders(home, tmp_path / "runs")
    submit(WHERE)
    service.ended()
    assert driver_log(service).splitlines()[0] == str(tmp_path / "runs/scripts/run1.1/work")
    service.wait_for(lambda: not (tmp_path / "runs/scripts/run1.1").exists())


def test_a_part_that_an_earlier_version_began_goes_on_in_its_folder(engine, service, home):
    root = home / "attempts" / "run1.1"
    (root / "work").mkdir(parents=True)
    (root / "plan.json").write_text(json.dumps(plan_to_json(a_plan(service, WHERE))))
    engine.warm()
    service.ended()
    assert driver_log(service).splitlines()[0] == str(root / "work")
    service.wait_for(lambda: not root.exists())
