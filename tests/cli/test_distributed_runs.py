"""The commands that look into runs of several processes, on one real run of two torch-like processes on two nodes."""

import json

import pytest

from tests.cli.conftest import Shell

SOURCE = """
import os
from azureml.core import Run
rank = int(os.environ["RANK"])
run = Run.get_context()
for step in range(3):
    run.log("loss", 10.0 * rank + step)
    print("step", step, "of", rank, flush=True)
print("no newline from", rank, end="")
"""
SUBMIT = """
from azureml.core import Environment, Experiment, ScriptRunConfig, Workspace
from azureml.core.compute import AmlCompute, ComputeTarget
from azureml.core.runconfig import PyTorchConfiguration
workspace = Workspace.from_config()
pair = ComputeTarget.create(workspace, "pair", AmlCompute.provisioning_configuration("STANDARD_D2", max_nodes=2))
here = Environment("here")
here.python.user_managed_dependencies = True
job = PyTorchConfiguration("Gloo", process_count=2, node_count=2)
source = ScriptRunConfig("ranks", "train.py", compute_target=pair, environment=here, distributed_job_config=job)
run = Experiment(workspace, "ranks").submit(source)
run.wait_for_completion(raise_on_error=False)
print(run.id)
"""
SECOND_FAILS = """
import os, sys, time
print(os.environ["RANK"], flush=True)
if os.environ["RANK"] == "1":
    sys.exit(7)
time.sleep(600)
"""
SUBMIT_ON_ONE_NODE = """
from azureml.core import Environment, Experiment, ScriptRunConfig, Workspace
from azureml.core.runconfig import PyTorchConfiguration
here = Environment("here")
here.python.user_managed_dependencies = True
job = PyTorchConfiguration("Gloo", process_count=2)
source = ScriptRunConfig("failing", "train.py", environment=here, distributed_job_config=job)
run = Experiment(Workspace.from_config(), "ranks").submit(source)
run.wait_for_completion(raise_on_error=False)
print(run.id)
"""
SAID = ["step 0 of {0}", "step 1 of {0}", "step 2 of {0}", "no newline from {0}"]


@pytest.fixture(scope="session")
def pair(shell: Shell) -> str:
    """The id of a run that completed on both nodes of the cluster `pair`."""
    (shell.folder / "ranks").mkdir()
    (shell.folder / "ranks" / "train.py").write_text(SOURCE, encoding="utf-8")
    return shell.python(SUBMIT).split()[-1]


def test_show_has_a_row_for_each_rank(shell: Shell, pair: str) -> None:
    shown = shell("runs", "show", pair).stdout
    table = [line.split() for line in shown.partition("\nranks\n")[2].partition("\n\n")[0].splitlines()]
    assert table[0] == ["RANK", "ROLE", "NODE", "ADDRESS", "STATE", "EXIT"]
    assert [(row[0], row[1], row[2], row[4], row[5]) for row in table[1:]] == [
        ("0", "worker", "pair-0", "ended", "0"),
        ("1", "worker", "pair-1", "ended", "0"),
    ]
    ranks = json.loads(shell("runs", "show", pair, "-o", "json").stdout)["ranks"]
    assert [(one["rank"], one["node"], one["exit_code"]) for one in ranks["ranks"]] == [(0, 0, 0), (1, 1, 0)]


def test_of_several_processes_on_one_node_the_one_that_failed_is_shown(shell: Shell) -> None:
    (shell.folder / "failing").mkdir()
    (shell.folder / "failing" / "train.py").write_text(SECOND_FAILS, encoding="utf-8")
    run = shell.python(SUBMIT_ON_ONE_NODE).split()[-1]
    shown = json.loads(shell("runs", "show", run, "-o", "json").stdout)["ranks"]
    assert [(one["rank"], one["node"], one["exit_code"]) for one in shown["ranks"]] == [(0, 0, None), (1, 0, 7)]
    assert [(one["name"], one["state"], one["outcome"]) for one in shown["nodes"]] == [("local", "ended", "failed")]


def test_the_log_is_that_of_the_first_rank_unless_another_is_named(shell: Shell, pair: str) -> None:
    for rank, arguments in ((0, ()), (0, ("--rank", 0)), (1, ("--rank", 1)), (1, ("--rank", 1, "-f"))):
        printed = shell("runs", "logs", pair, *arguments)
        assert printed.stdout == "\n".join(line.format(rank) for line in SAID), arguments
        assert printed.returncode == 0


@pytest.mark.parametrize("arguments", [("--all",), ("--all", "-f")])
def test_all_ranks_together_have_whole_lines_behind_their_rank(
    shell: Shell, pair: str, arguments: tuple[str, ...]
) -> None:
    printed = shell("runs", "logs", pair, *arguments).stdout.splitlines()
    for rank in range(2):
        own = [line for line in printed if line.startswith(f"[rank {rank}] ")]
        assert own == [f"[rank {rank}] {line.format(rank)}" for line in SAID]
    assert len(printed) == 2 * len(SAID)


def test_ranks_as_json_say_whose_each_piece_is(shell: Shell, pair: str) -> None:
    pieces = [json.loads(line) for line in shell("runs", "logs", pair, "--all", "-f", "-o", "json").stdout.splitlines()]
    assert {piece["rank"] for piece in pieces if "log" in piece} == {0, 1}
    assert pieces[-1]["end"]["status"] == "Completed"


def test_a_rank_that_is_not_there_is_not_waited_for(shell: Shell, pair: str) -> None:
    for follow in ((), ("-f",)):
        missing = shell("runs", "logs", pair, "--rank", 7, *follow)
        assert missing.returncode == 3
        assert "has no rank 7. It has: 0, 1." in missing.stderr
    assert shell("runs", "logs", pair, "--rank", -1).returncode == 2
    assert shell("runs", "logs", pair, "--rank", 1, "--all").returncode == 2


def test_metrics_of_one_rank_and_of_all(shell: Shell, pair: str) -> None:
    def loss(*arguments: object) -> list[float]:
        found: list[float] = json.loads(shell("runs", "metrics", pair, "-o", "json", *arguments).stdout)["loss"]
        return found

    assert loss("--rank", 1) == [10.0, 11.0, 12.0]
    assert sorted(loss()) == [0.0, 1.0, 2.0, 10.0, 11.0, 12.0]
    assert shell("runs", "metrics", pair, "--rank", "1").stdout.splitlines()[1].split() == ["loss", "scalar", "3", "12"]
    assert shell("runs", "metrics", pair, "--name", "absent").returncode == 3


def test_a_cluster_shows_its_nodes(shell: Shell, pair: str) -> None:
    listed = shell("compute", "list").stdout.splitlines()
    assert next(line.split()[:5] for line in listed if line.startswith("pair")) == [
        "pair", "AmlCompute", "STANDARD_D2", "0..2", "2",
    ]  # fmt: skip
    shown = shell("compute", "show", "pair").stdout
    assert "2 idle" in shown
    nodes = json.loads(shell("compute", "nodes", "pair", "-o", "json").stdout)
    assert [(node["name"], node["state"], node["run_id"]) for node in nodes] == [
        ("pair-0", "idle", None),
        ("pair-1", "idle", None),
    ]


def test_only_what_was_attached_is_detached(shell: Shell, pair: str) -> None:
    refused = shell("compute", "detach", "pair")
    assert refused.returncode == 1
    assert "was created, not attached" in refused.stderr
    assert shell("compute", "detach", "absent").returncode == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--address", "nowhere"), "address must be HOST:PORT"),
        (("--address", "h:1", "--cpu", "0"), "cpu must be"),
        (("--address", "h:1", "--max-nodes", "0"), "max_nodes must be"),
        (("--address", "h:1", "--min-nodes", "5", "--max-nodes", "2"), "at least min_nodes"),
    ],
)
def test_a_ray_cluster_that_cannot_be_is_refused(shell: Shell, arguments: tuple[str, ...], said: str) -> None:
    refused = shell("compute", "attach", "ray", "trainers", *arguments)
    assert refused.returncode == 2
    assert said in refused.stderr


def test_a_ray_cluster_that_does_not_answer_is_not_attached(shell: Shell) -> None:
    refused = shell("compute", "attach", "ray", "trainers", "--address", "127.0.0.1:1")
    assert refused.returncode == 1
    assert "127.0.0.1:1" in refused.stderr
    assert shell("compute", "show", "trainers").returncode == 3
