"""A sweep of trivial children, two at a time: what a child costs beyond its bare process."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from azureml.core import ScriptRunConfig
from azureml.train.hyperdrive import HyperDriveConfig, PrimaryMetricGoal, RandomParameterSampling, uniform
from bench.cluster import NAME, make_cluster
from bench.home import Home, open_home
from bench.measuring import Measurement, Subject, at_most, interleaved, median, spread_of
from bench.peers.process import open_peers

CHILDREN, AT_A_TIME, REPEATS = 200, 2, 3
TRIALS_OF_RAY = 20
"""Each takes about a second, however many there are."""
TARGETS = {NAME: "on two nodes of this machine", "local": "on the local target"}


def measure() -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.py"
        script.write_text("", encoding="utf-8")
        wanted = {
            "ray tune": ("ray-tune", "ray_tune.py", [str(TRIALS_OF_RAY), str(script)]),
            "optuna in sqlite": ("optuna", "optuna_sqlite.py", [str(CHILDREN), str(script)]),
            "optuna in sqlite, a process each": ("optuna", "optuna_sqlite.py", [str(CHILDREN), str(script), "process"]),
        }
        with open_peers(wanted, Path(folder) / "peers") as peers, open_home() as home:
            make_cluster(home, AT_A_TIME)
            subjects = {"floor": _each(lambda: _by_hand(script)), **_sweeps(home), **peers.running}
            taken = interleaved(subjects, REPEATS, rarely=peers.running, rare=REPEATS)
    floor, others = median(taken["floor"]), peers.medians(taken)
    for target, words in TARGETS.items():
        whole, spread = median(taken[target]), spread_of(taken[target])
        also = {"whole": whole, "process by hand": floor}
        name = f"a child of a sweep beyond its process, {words}"
        yield Measurement(name, whole - floor, "ms", at_most(60, "ms"), None, spread, others, peers.reasons, also)


def _each(run_all: Callable[[], None]) -> Subject:
    def milliseconds() -> float:
        begun = time.perf_counter()
        run_all()
        return (time.perf_counter() - begun) * 1000 / CHILDREN

    return milliseconds


def _by_hand(script: Path) -> None:
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        commands = [[sys.executable, str(script), "--x", str(number)] for number in range(CHILDREN)]
        for done in [pool.submit(subprocess.run, command, check=True) for command in commands]:
            done.result()


def _sweeps(home: Home) -> dict[str, Subject]:
    configs = {target: home.config(f"child-{target}", "") for target in TARGETS}
    for target, config in configs.items():
        config.run_config.target = target
    return {target: _each(lambda config=config: _sweep(home, config)) for target, config in configs.items()}


def _sweep(home: Home, config: ScriptRunConfig) -> None:
    sweep = home.submit(
        HyperDriveConfig(
            run_config=config,
            hyperparameter_sampling=RandomParameterSampling({"x": uniform(0, 1)}),
            primary_metric_name="nothing",
            primary_metric_goal=PrimaryMetricGoal.MINIMIZE,
            max_total_runs=CHILDREN,
            max_concurrent_runs=AT_A_TIME,
        )
    )
    sweep.wait_for_completion()
    ended = [child.get_status() for child in sweep.get_children()]
    assert ended == ["Completed"] * CHILDREN, f"{len(ended)} children ended {set(ended)}"
