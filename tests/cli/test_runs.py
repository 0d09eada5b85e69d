import json

from tests.cli.conftest import Shell

Runs = dict[str, str]
SHORT_RUN = """
from azureml.core import Experiment, Workspace
run = Experiment(Workspace.from_config(), "short").start_logging(snapshot_directory=None)
run.complete()
print(run.id)
"""


def test_runs_are_listed_newest_first(shell: Shell, runs: Runs) -> None:
    listed = shell("runs", "list", "--experiment", "cli").stdout.splitlines()
    assert listed[0].split() == ["RUN", "EXPERIMENT", "STATUS", "CREATED", "DURATION"]
    assert [line.split()[0] for line in listed[1:]] == [runs["bad"], runs["good"]]


def test_a_list_can_be_narrowed(shell: Shell, runs: Runs) -> None:
    failed = json.loads(shell("runs", "list", "-e", "cli", "--status", "Failed", "-o", "json").stdout)
    assert [run["id"] for run in failed] == [runs["bad"]]
    blue = json.loads(shell("runs", "list", "--tag", "colour=blue", "-o", "json").stdout)
    assert [run["id"] for run in blue] == [runs["good"]]
    best = json.loads(shell("runs", "list", "--by-metric", "accuracy", "--above", "0.5", "-o", "json").stdout)
    assert [run["id"] for run in best] == [runs["good"]]


def test_runs_are_chosen_by_who_submitted_them(shell: Shell, runs: Runs) -> None:
    both = json.loads(shell("runs", "list", "-e", "cli", "--created-by", "owner", "-o", "json").stdout)
    assert {run["created_by"] for run in both} == {"owner"}
    assert {run["id"] for run in both} == {runs["bad"], runs["good"]}
    assert json.loads(shell("runs", "list", "--created-by", "run:none", "-o", "json").stdout) == []
    [line] = [line for line in shell("runs", "show", runs["good"]).stdout.splitlines() if "created by" in line]
    assert line.split()[-1] == "owner"


def test_show_tells_where_the_time_went_and_what_came_out(shell: Shell, runs: Runs) -> None:
    shown = shell("runs", "show", runs["good"]).stdout
    for word in ("Completed", "Running", "accuracy", "0.75", "outputs/model.txt", "colour=blue"):
        assert word in shown


def test_show_says_the_error_in_words(shell: Shell, runs: Runs) -> None:
    shown = shell("runs", "show", runs["bad"])
    assert shown.returncode == 0
    assert "ValueError: no data" in shown.stdout


def test_show_as_json_is_the_whole_record(shell: Shell, runs: Runs) -> None:
    record = json.loads(shell("runs", "show", runs["good"], "-o", "json").stdout)
    assert record["status"] == "Completed"
    assert record["metrics"]["accuracy"] == 0.75
    assert {"phases", "files", "definition"} <= set(record)


def test_a_log_is_printed_as_it_was_written(shell: Shell, runs: Runs) -> None:
    assert shell("runs", "logs", runs["good"]).stdout == "a line of the log\n"


def test_a_log_as_json_is_one_object_a_line(shell: Shell, runs: Runs) -> None:
    path = "azureml-logs/70_driver_log.txt"
    printed = shell("runs", "logs", runs["good"], "-o", "json").stdout.splitlines()
    assert [json.loads(line) for line in printed] == [{"log": path, "text": "a line of the log\n"}]
    followed = shell("runs", "logs", "-f", runs["bad"], "-o", "json")
    lines = [json.loads(line) for line in followed.stdout.splitlines()]
    assert followed.returncode == 1
    assert any("going" in line.get("text", "") for line in lines)
    assert lines[-1]["end"]["status"] == "Failed"


def test_following_exits_as_the_run_did(shell: Shell, runs: Runs) -> None:
    followed = shell("runs", "logs", "-f", runs["good"])
    assert (followed.returncode, followed.stdout) == (0, "a line of the log\n")
    failed = shell("runs", "logs", "-f", runs["bad"])
    assert failed.returncode == 1
    assert "going" in failed.stdout
    assert "ValueError: no data" in failed.stderr


def test_waiting_exits_as_the_run_did(shell: Shell, runs: Runs) -> None:
    assert shell("runs", "wait", runs["good"]).returncode == 0
    assert shell("runs", "wait", runs["bad"]).returncode == 1


def test_an_unknown_log_names_those_there_are(shell: Shell, runs: Runs) -> None:
    missing = shell("runs", "logs", runs["good"], "--file", "logs/nothing.txt")
    assert missing.returncode == 3
    assert "azureml-logs/70_driver_log.txt" in missing.stderr


def test_canceling_what_has_ended_changes_nothing(shell: Shell, runs: Runs) -> None:
    canceled = json.loads(shell("runs", "cancel", runs["good"], "-o", "json").stdout)
    assert canceled["status"] == "Completed"


def test_a_deleted_run_is_gone(shell: Shell, runs: Runs) -> None:
    made = shell.python(SHORT_RUN).split()[-1]
    assert shell("runs", "delete", made, "--yes").returncode == 0
    assert shell("runs", "show", made).returncode == 3


def test_deleting_asks_first(shell: Shell, runs: Runs) -> None:
    assert shell("runs", "delete", runs["good"], input="n\n").returncode == 1
    assert shell("runs", "show", runs["good"]).returncode == 0
