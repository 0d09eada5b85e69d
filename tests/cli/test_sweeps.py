"""Sweeps on the command line, over a real one."""

import csv
import io
import json
import os
import pty
import re
import subprocess
from typing import Any

import pytest

from tests.cli.conftest import RUNYARD, Shell

pytestmark = pytest.mark.slow

SCRIPT = """
import argparse
from azureml.core import Run
parser = argparse.ArgumentParser()
parser.add_argument("--rate", type=float)
parser.add_argument("--note")
given = parser.parse_args()
if given.rate == 0.5:
    raise ValueError("a rate of a half")
run = Run.get_context()
for step in range(3):
    run.log("accuracy", given.rate * (step + 1))
"""
SUBMIT = """
from azureml.core import Environment, Experiment, ScriptRunConfig, Workspace
from azureml.train.hyperdrive import GridParameterSampling, HyperDriveConfig, PrimaryMetricGoal, choice
workspace = Workspace.from_config()
here = Environment("here")
here.python.user_managed_dependencies = True
config = HyperDriveConfig(
    run_config=ScriptRunConfig("tuned", "train.py", environment=here),
    hyperparameter_sampling=GridParameterSampling(
        {"rate": choice(0.1, 0.2, 0.3, 0.5), "note": choice("a <b>\\x1b[2J")}),
    primary_metric_name="accuracy", primary_metric_goal=PrimaryMetricGoal.MAXIMIZE,
    max_total_runs=4, max_concurrent_runs=2)
run = Experiment(workspace, "tuning").submit(config)
run.wait_for_completion()
print(run.id)
"""


@pytest.fixture(scope="session")
def sweep(shell: Shell) -> str:
    """The id of one whose children are 0 to 3, of which the last has failed and the one before it is the best."""
    (shell.folder / "tuned").mkdir()
    (shell.folder / "tuned" / "train.py").write_text(SCRIPT, encoding="utf-8")
    return shell.python(SUBMIT).split()[-1]


def submitting(rates: str) -> str:
    """A program that submits another sweep and does not wait for it."""
    without_waiting = SUBMIT.replace("run.wait_for_completion()", "").replace('"tuning"', '"others"')
    return without_waiting.replace("choice(0.1, 0.2, 0.3, 0.5)", rates)


def shown(shell: Shell, *arguments: object) -> str:
    done = shell("sweeps", "show", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_sweeps_are_listed_with_the_best_so_far(shell: Shell, sweep: str) -> None:
    head, line = shell("sweeps", "list", "-e", "tuning").stdout.splitlines()
    assert head.split() == ["SWEEP", "EXPERIMENT", "STATUS", "CREATED", "METRIC", "BEST", "ENDED"]
    assert line.split()[:3] == [sweep, "tuning", "Completed"]
    assert line.split()[-4:] == ["accuracy", "(maximize)", "0.9", "4/4"]


def test_the_list_as_json_has_what_the_sweep_asks_for(shell: Shell, sweep: str) -> None:
    (found,) = json.loads(shell("sweeps", "list", "-e", "tuning", "-o", "json").stdout)
    assert found["id"] == sweep
    assert found["counts"]["failed"] == 1
    assert found["sweep"]["max_total_runs"] == 4


def test_a_workspace_without_sweeps_says_so(shell: Shell, sweep: str) -> None:
    shell.python(
        "from azureml.core import Experiment, Workspace\n"
        "Experiment(Workspace.from_config(), 'none').start_logging(snapshot_directory=None).complete()"
    )
    listed = shell("sweeps", "list", "-e", "none")
    assert (listed.returncode, listed.stdout, listed.stderr) == (0, "", "No sweeps.\n")


def test_show_has_the_best_its_values_and_how_many_failed(shell: Shell, sweep: str) -> None:
    text = shown(shell, sweep)
    assert "accuracy (maximize)" in text
    assert "4 sampled: 3 completed, 1 failed" in text
    assert "0.9 by child 2: rate = 0.3" in text
    assert "choice(0.1, 0.2, 0.3, 0.5)" in text
    assert "at most 4, 2 at a time" in text


def test_children_come_best_first_with_their_values_and_causes(shell: Shell, sweep: str) -> None:
    lines = [line.split() for line in shown(shell, sweep).partition("CHILD ")[2].splitlines()[1:5]]
    assert [line[:4] for line in lines] == [
        ["2", "Completed", "0.9", "3"],
        ["1", "Completed", "0.6", "3"],
        ["0", "Completed", "0.3", "3"],
        ["3", "Failed", "-", "0"],
    ]
    assert "a rate of a half" in " ".join(lines[3])


def test_a_plot_shows_trials_and_the_best_so_far(shell: Shell, sweep: str) -> None:
    assert "trials 0 to 2" in shown(shell, sweep)
    assert "best so far" in shown(shell, sweep)


def test_control_characters_of_a_value_do_not_reach_the_terminal(shell: Shell, sweep: str) -> None:
    text = shown(shell, sweep)
    assert "\x1b" not in text
    assert "a <b>\\x1b[2J" in text


def test_the_rest_of_the_children_is_counted(shell: Shell, sweep: str) -> None:
    text = shown(shell, sweep, "--top", 1)
    assert "and 3 more" in text
    assert "0.6" not in text.partition("children, the best first")[2]


def test_show_as_json_is_the_run_and_its_view(shell: Shell, sweep: str) -> None:
    found: dict[str, Any] = json.loads(shown(shell, sweep, "--top", 2, "-o", "json"))
    assert found["run"]["id"] == sweep
    assert [one["number"] for one in found["trials"]] == [2, 1]
    assert (found["trial_count"], found["best"]["best_primary_metric"]) == (4, pytest.approx(0.9))


def test_following_one_that_has_ended_exits_as_it_did(shell: Shell, sweep: str) -> None:
    followed = shell("sweeps", "show", sweep, "-f")
    assert followed.returncode == 0
    assert followed.stdout.startswith("Completed, 4 sampled: 3 completed, 1 failed, 0.9 by child 2")


def test_a_sweep_that_goes_on_is_followed_to_its_end(shell: Shell, sweep: str) -> None:
    made = shell.python(submitting("choice(0.1, 0.2, 0.3, 0.5)")).split()[-1]
    followed = shell("sweeps", "show", made, "-f", "-o", "json")
    told = [json.loads(line) for line in followed.stdout.splitlines()]
    assert followed.returncode == 0
    assert {one["run"]["id"] for one in told} == {made}
    assert (told[-1]["run"]["status"], told[-1]["counts"]["completed"]) == ("Completed", 3)


def test_following_one_whose_children_all_fail_exits_as_it_did(shell: Shell, sweep: str) -> None:
    followed = shell("sweeps", "show", shell.python(submitting("choice(0.5)")).split()[-1], "-f")
    assert followed.returncode == 1
    assert "a rate of a half" in followed.stderr


def test_a_terminal_is_drawn_on(shell: Shell, sweep: str) -> None:
    screen, terminal = pty.openpty()
    command = [str(RUNYARD), "sweeps", "show", sweep, "-f"]
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, env=shell.variables) as process:
        os.close(terminal)
        drawn = b""
        while piece := _read(screen):
            drawn += piece
    os.close(screen)
    assert process.returncode == 0
    assert "━" in drawn.decode()


def _read(screen: int) -> bytes:
    try:
        return os.read(screen, 65536)
    except OSError:  # the last writer has left
        return b""


def test_an_export_holds_every_child_and_a_column_for_each_value(shell: Shell, sweep: str) -> None:
    rows = list(csv.DictReader(io.StringIO(shell("sweeps", "export", sweep).stdout)))
    assert [row["run_id"] for row in rows] == [f"{sweep}_{n}" for n in (2, 1, 0, 3)]
    assert [row["rate"] for row in rows] == ["0.3", "0.2", "0.1", "0.5"]
    assert rows[3]["best_primary_metric"] == ""


def test_an_export_goes_to_a_file_as_its_name_says(shell: Shell, sweep: str) -> None:
    target = shell.folder / "all.json"
    assert shell("sweeps", "export", sweep, "--to", target).returncode == 0
    assert [row["number"] for row in json.loads(target.read_text(encoding="utf-8"))] == [2, 1, 0, 3]
    refused = shell("sweeps", "export", sweep, "--to", target)
    assert refused.returncode == 2
    assert "--overwrite" in refused.stderr
    assert shell("sweeps", "export", sweep, "--to", target, "--overwrite", "-o", "csv").returncode == 0
    assert target.read_text(encoding="utf-8").startswith("run_id,number,status")


def test_a_grid_has_no_seed_and_long_values_are_cut(shell: Shell, sweep: str) -> None:
    assert "seed" not in shown(shell, sweep)
    long = SUBMIT.replace('"a <b>\\x1b[2J"', '"x" * 3_000').replace('"tuning"', '"long"')
    assert long.count("3_000") == 1
    [best] = [line for line in shown(shell, shell.python(long).split()[-1]).splitlines() if line.startswith("best ")]
    assert len(best) < 200


def test_an_export_to_where_nothing_can_be_written_names_what_was_asked_for(shell: Shell, sweep: str) -> None:
    refused = shell("sweeps", "export", sweep, "--to", shell.folder / "nowhere" / "all.csv")
    assert refused.returncode == 1
    assert f"{shell.folder / 'nowhere' / 'all.csv'} cannot be written: No such file or directory." in refused.stderr


def test_a_run_that_is_no_sweep_is_told_so(shell: Shell, sweep: str) -> None:
    refused = shell("sweeps", "show", f"{sweep}_0")
    assert refused.returncode == 3
    assert f"runyard sweeps show {sweep}" in refused.stderr
    unknown = shell("sweeps", "show", "HD_nobody")
    assert (unknown.returncode, "There is no sweep 'HD_nobody'. `runyard sweeps list`" in unknown.stderr) == (3, True)
    assert shell("sweeps", "export", "../runs").returncode == 3


def test_runs_show_points_to_the_sweep(shell: Shell, sweep: str) -> None:
    assert f"runyard sweeps show {sweep}" in shell("runs", "show", sweep).stdout
    assert f"runyard sweeps show {sweep}" in shell("runs", "show", f"{sweep}_2").stdout


def test_a_sweep_is_made_again_under_an_id_of_sweeps(shell: Shell, sweep: str) -> None:
    made = shell("runs", "rerun", sweep, "--experiment", "others").stdout.strip()
    assert re.fullmatch(r"HD_[0-9a-f-]{36}", made)
    assert shell("sweeps", "show", made, "-f").returncode == 0
