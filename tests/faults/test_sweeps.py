"""Sweeps whose service is killed, whose children misbehave, and large ones that are called off.

Every script notes its run and process when it starts and when it ends, so that one that was started twice, lost or left
running is seen. CI takes small sizes; `make faults` the full ones.
"""

import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from azureml.core.compute import AmlCompute, ComputeTarget
from azureml.train.hyperdrive import (
    GridParameterSampling,
    HyperDriveConfig,
    HyperDriveRun,
    PrimaryMetricGoal,
    RandomParameterSampling,
    choice,
    uniform,
)
from runyard_sdk.client import Client, quoted
from tests.faults.conftest import FULL
from tests.faults.yard import Yard, ended, eventually, is_alive, kill

pytestmark = pytest.mark.slow

SCRIPT = """
import os, sys, time
from azureml.core import Run
folder, name, value = sys.argv[1:]
run = Run.get_context()
def note(what):
    with open(os.path.join(folder, what), "a") as sink:
        sink.write("%s %d\\n" % (run.id, os.getpid()))
note("started")
if value == "fail":
    raise ValueError("as it was told")
if value == "die":
    os.kill(os.getpid(), 9)
if value in ("wait", "cancel"):
    while not os.path.exists(os.path.join(folder, "gate")):
        time.sleep(0.02)
if value == "text":
    run.log("score", "very good")
elif value != "quiet":
    run.log("score", len(value) if value.isalpha() else float(value))
note("ended")
"""


class Sweep:
    """A sweep in flight. Its scripts write to `folder` that they have started and ended."""

    def __init__(self, yard: Yard, folder: Path, run: HyperDriveRun) -> None:
        self.yard, self.run, self._folder = yard, run, folder

    @property
    def started(self) -> Counter[str]:
        """How often each child's script was."""
        return Counter(run_id for run_id, _ in self._notes("started"))

    @property
    def counts(self) -> dict[str, int]:
        counts: dict[str, int] = Client().get(f"/runs/{quoted(self.run.id)}/sweep")["counts"]
        return {name: count for name, count in counts.items() if count}

    @property
    def lines(self) -> int:
        """Of its log: each step of the sweep is one."""
        log = self.yard.home / "logs" / self.run.id / "azureml-logs" / "hyperdrive.txt"
        return log.read_text(encoding="utf-8").count("\n") if log.exists() else 0

    def let_go(self) -> None:
        (self._folder / "gate").touch()

    def kill_service(self) -> None:
        """And have another one. Whoever asks next would start it as well."""
        self.yard.kill("service", self.run)
        self.yard.restart()

    def nothing_runs(self) -> bool:
        return not any(is_alive(pid) for _, pid in self._notes("started"))

    def _notes(self, name: str) -> list[tuple[str, int]]:
        file = self._folder / name
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        return [(run_id, int(pid)) for run_id, pid in map(str.split, text.splitlines())]


def swept(yard: Yard, folder: Path, sampling: Any, runs: int, concurrent: int = 2, **options: Any) -> Sweep:
    config = HyperDriveConfig(
        hyperparameter_sampling=sampling,
        primary_metric_name="score",
        primary_metric_goal=PrimaryMetricGoal.MAXIMIZE,
        max_total_runs=runs,
        max_concurrent_runs=concurrent,
        run_config=yard.config(SCRIPT, arguments=(folder,), **options),
    )
    return Sweep(yard, folder, yard.submit_config(config))


def one_node(yard: Yard) -> str:
    options = AmlCompute.provisioning_configuration(vm_size="STANDARD_D2_V2", max_nodes=1)
    ComputeTarget.create(yard.workspace, "one-node", options).wait_for_completion()
    return "one-node"


def all_waiting_for_one_node(yard: Yard, folder: Path, count: int) -> Sweep:
    """So many children are there; the first has the node and waits for ever."""
    space = RandomParameterSampling({"what": choice("wait")})
    sweep = swept(yard, folder, space, count, count, compute_target=one_node(yard))
    eventually(lambda: sweep.counts.get("sampled", 0) == count and sweep.started, "all children")
    return sweep


@pytest.mark.parametrize("seed", range(5) if FULL else range(1))
def test_a_sweep_whose_service_is_killed_again_and_again_tries_each_trial_once(
    yard: Yard, tmp_path: Path, full: bool, seed: int
) -> None:
    runs, most_lines_between = (40, 6) if full else (8, 10)
    sweep = swept(yard, tmp_path, RandomParameterSampling({"rate": uniform(0, 1)}, {"seed": seed}), runs)
    moments = random.Random(seed)
    seen = 0
    while seen < 3 * runs:  # at least three lines of each child: sampled, scheduled, ended
        eventually(lambda: sweep.lines >= seen, f"line {seen} of the sweep's log")  # noqa: B023
        sweep.kill_service()
        seen = max(seen, sweep.lines) + moments.randint(0, most_lines_between)
    assert ended(sweep.run).get_status() == "Completed"
    names = [f"{sweep.run.id}_{number}" for number in range(runs)]
    assert sweep.started == Counter(names)
    assert sweep.counts == {"sampled": runs, "completed": runs}
    assert {child.id: child.get_status() for child in sweep.run.get_children()} == dict.fromkeys(names, "Completed")
    assert sweep.nothing_runs()
    values = sweep.run.get_hyperparameters()
    assert sorted(values) == sorted(names)
    assert len(set(values.values())) == runs
    scores = {row["run_id"]: row["best_primary_metric"] for row in sweep.run.get_children_sorted_by_primary_metric()}
    assert sweep.run.get_properties()["best_child_run_id"] == max(scores, key=lambda name: scores[name])


def test_the_same_seed_gives_the_same_trials_whether_the_service_is_killed_or_not(yard: Yard, tmp_path: Path) -> None:
    def trials(folder: Path, *, killed: bool) -> list[str]:
        folder.mkdir()
        sweep = swept(yard, folder, RandomParameterSampling({"rate": uniform(0, 1)}, {"seed": 5}), 5)
        if killed:
            eventually(lambda: len(sweep.started) >= 2, "two children")
            sweep.kill_service()
        ended(sweep.run)
        values = sweep.run.get_hyperparameters()
        return [values[name] for name in sorted(values)]

    assert trials(tmp_path / "a", killed=True) == trials(tmp_path / "b", killed=False)


def test_a_sweep_that_is_called_off_while_its_service_is_killed_leaves_nothing_running(
    yard: Yard, tmp_path: Path, full: bool
) -> None:
    count = 300 if full else 30
    sweep = all_waiting_for_one_node(yard, tmp_path, count)
    sweep.run.cancel()
    sweep.kill_service()
    assert ended(sweep.run).get_status() == "Canceled"
    assert sweep.counts == {"sampled": count, "canceled": count}
    assert len(sweep.started) == 1
    eventually(sweep.nothing_runs, "the end of the script")


def test_a_large_sweep_is_called_off_in_seconds_and_no_child_starts_meanwhile(
    yard: Yard, tmp_path: Path, full: bool
) -> None:
    count = 1000 if full else 120
    sweep = all_waiting_for_one_node(yard, tmp_path, count)
    began_at = time.monotonic()
    sweep.run.cancel()
    answered_in = time.monotonic() - began_at
    assert ended(sweep.run).get_status() == "Canceled"
    ended_in = time.monotonic() - began_at
    assert answered_in < 2.0
    assert ended_in < 30.0
    assert len(sweep.started) == 1
    assert sweep.counts == {"sampled": count, "canceled": count}
    eventually(sweep.nothing_runs, "the end of the script")


def test_children_that_misbehave_are_counted_and_named(yard: Yard, tmp_path: Path) -> None:
    whats = ["fail", "die", "quiet", "text", "cancel", "5.5"]
    sweep = swept(yard, tmp_path, GridParameterSampling({"what": choice(*whats)}), 10, 6)
    eventually(lambda: f"{sweep.run.id}_4" in sweep.started, "the child that waits")
    by_id = {child.id: child for child in sweep.run.get_children()}
    by_id[f"{sweep.run.id}_4"].cancel()
    assert ended(sweep.run).get_status() == "Completed"
    assert sweep.counts == {"sampled": 6, "completed": 3, "failed": 2, "canceled": 1}
    warning = next(text for text in sweep.run.get_details()["warnings"] if "children failed" in str(text))
    assert f"2 of 6 children failed: {sweep.run.id}_0, {sweep.run.id}_1." in str(warning)
    assert sweep.run.get_properties()["best_child_run_id"] == f"{sweep.run.id}_5"
    assert sweep.nothing_runs()


def test_a_sweep_whose_agent_is_killed_tells_of_each_child_how_it_ended(yard: Yard, tmp_path: Path) -> None:
    sweep = swept(yard, tmp_path, GridParameterSampling({"what": choice("wait", "1.5", "2.5")}), 3, 1)
    eventually(lambda: sweep.started, "the first child")
    kill(yard.pid_of("agent", sweep.run))
    sweep.let_go()
    assert ended(sweep.run).get_status() == "Completed"
    assert set(sweep.started.values()) == {1}
    assert sum(sweep.counts.get(name, 0) for name in ("completed", "failed")) == 3
    assert sweep.nothing_runs()
