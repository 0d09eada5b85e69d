"""`runyard runs list`: columns, names that are not there, and what is cut."""

import json

import pytest

from tests.cli.conftest import Shell

SUBMIT = """
from azureml.core import Environment, Experiment, ScriptRunConfig, Workspace
workspace = Workspace.from_config()
here = Environment("here")
here.python.user_managed_dependencies = True
config = ScriptRunConfig("columns", "log.py", arguments=["--rate", 0.5, "--fast", "--depth=-3"], environment=here)
run = Experiment(workspace, "columns").submit(config, tags={"stage": "first"})
run.wait_for_completion()
other = Experiment(workspace, "columns").start_logging(snapshot_directory=None)
other.log("depth", 2)
other.complete()
Experiment(workspace, "bare").start_logging(snapshot_directory=None).complete()
print(run.id, other.id)
"""


@pytest.fixture(scope="session")
def listed(shell: Shell) -> list[str]:
    """A run with arguments, a tag and the metric `score`, and one with the metric `depth` alone."""
    folder = shell.folder / "columns"
    folder.mkdir()
    (folder / "log.py").write_text("from azureml.core import Run\nRun.get_context().log('score', 0.25)\n")
    return shell.python(SUBMIT).split()[-2:]


def _rows(shell: Shell, *options: str) -> list[list[str]]:
    done = shell("runs", "list", "-e", "columns", *options)
    assert done.returncode == 0, done.stderr
    return [line.split() for line in done.stdout.splitlines()]


def test_metrics_arguments_and_tags_have_columns(shell, listed):
    columns = ["--show-metric", "score", "--show-argument", "rate", "--show-argument", "fast"]
    columns += ["--show-argument", "depth", "--show-tag", "stage"]
    heading, other, run = _rows(shell, *columns)
    assert heading[5:] == ["SCORE", "RATE", "FAST", "DEPTH", "STAGE"]
    assert run[-5:] == ["0.25", "0.5", "yes", "-3", "first"]
    assert other[-5:] == ["-"] * 5
    found = json.loads(shell("runs", "list", "-e", "columns", *columns, "-o", "json").stdout)
    assert [(one.get("metrics"), one["arguments"]) for one in found] == [
        ({"depth": 2.0}, {}),
        ({"score": 0.25}, {"rate": "0.5", "fast": "yes", "depth": "-3"}),
    ]


def test_an_argument_may_be_named_with_its_dashes(shell, listed):
    heading, _, run = _rows(shell, "--show-argument=--rate")
    assert (heading[-1], run[-1]) == ("RATE", "0.5")


def test_by_metric_shows_what_it_sorts_by(shell, listed):
    heading, run = _rows(shell, "--by-metric", "score")
    assert (heading[-1], run[0], run[-1]) == ("SCORE", listed[0], "0.25")


@pytest.mark.parametrize(
    ("command", "known"),
    [
        (["runs", "list", "-w", "nosuch"], "'default'"),
        (["sweeps", "list", "-w", "nosuch"], "'default'"),
        (["runs", "list", "-e", "colums"], "'columns'"),
        (["sweeps", "list", "-e", "colums"], "'columns'"),
        (["runs", "list", "-e", "columns", "--by-metric", "scor"], "'depth', 'score'"),
        (["runs", "list", "-e", "columns", "--show-metric", "scor"], "'depth', 'score'"),
        (["runs", "list", "-e", "columns", "--show-argument", "rat"], "'rate'"),
        (["runs", "list", "-e", "columns", "--show-tag", "stag"], "'stage'"),
        (["runs", "list", "-e", "bare", "--show-tag", "stage"], "none"),
        (["runs", "list", "-e", "bare", "--show-argument", "rate"], "none"),
    ],
    ids=" ".join,
)
def test_a_name_that_is_not_there_is_exit_3_with_what_there_is(shell, listed, command, known):
    done = shell(*command)
    assert (done.returncode, done.stdout) == (3, "")
    assert known in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_metric_that_a_run_does_not_have_is_exit_3_with_what_it_has(shell, listed):
    done = shell("runs", "metrics", listed[0], "--name", "scor")
    assert (done.returncode, "It has: 'score'" in done.stderr) == (3, True)


def test_a_filter_that_leaves_nothing_is_no_error(shell, listed):
    assert _rows(shell, "--by-metric", "score", "--above", "9") == []
    assert _rows(shell, "--status", "Canceled") == []


def test_a_status_may_be_in_lower_case(shell, listed):
    assert {row[2] for row in _rows(shell, "--status", "completed")[1:]} == {"Completed"}


def test_a_list_that_is_cut_says_so(shell, listed):
    cut = shell("runs", "list", "-e", "columns", "-n", "1")
    assert "the list ends after 1" in cut.stderr
    assert shell("runs", "list", "-e", "columns", "-n", "2").stderr == ""
