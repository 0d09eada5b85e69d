"""An epoch of MNIST by two Horovod ranks: through Runyard, against the same script under mpirun by hand."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from azureml.core.runconfig import MpiConfiguration
from azureml.train.dnn import TensorFlow
from bench.by_hand import mpirun
from bench.cluster import NAME, make_cluster, rank_logs
from bench.home import Home, open_home
from bench.measuring import Measurement, interleaved, median, spread_of, times_floor
from bench.mnist_folder import mnist_folder

PAIRS, RANKS = 7, 2
EXAMPLE = Path(__file__).parents[1] / "examples" / "distributed"
TOLD = re.compile(r"Rank \d+ epoch 2: ([0-9.]+) s")


def measure() -> Iterator[Measurement]:
    data = mnist_folder()
    if data is None:
        print("horovod_epoch: MNIST is not here (RUNYARD_MNIST names its folder); not measured.", file=sys.stderr)
        return
    with open_home() as home:
        make_cluster(home, RANKS)
        arguments = {"--data-folder": str(data), "--epochs": 2}
        estimator = TensorFlow(
            source_directory=str(EXAMPLE),
            entry_script="horovod_tf1.py",
            script_params=arguments,
            compute_target=NAME,
            node_count=RANKS,
            framework_version="1.13",
            distributed_training=MpiConfiguration(),
        )
        _as_run(home, estimator)  # builds the environment
        command = [_python_of(home), str(EXAMPLE / "horovod_tf1.py"), "--data-folder", str(data), "--epochs", "2"]
        variables = {"PYTHONPATH": str(EXAMPLE.parents[1] / "packages" / "sdk" / "src")}
        by_hand = home.root / "by-hand"
        by_hand.mkdir()
        os.chdir(by_hand)  # it writes its model below the present folder
        subjects = {
            "floor": lambda: _slowest([mpirun(command, nodes=RANKS, folder=by_hand, variables=variables)]),
            "ours": lambda: _as_run(home, estimator),
        }
        taken = interleaved(subjects, PAIRS)
        os.chdir("/")
    value, floor, spread = median(taken["ours"]), median(taken["floor"]), spread_of(taken["ours"])
    yield Measurement("epoch of 2 Horovod ranks", value, "s", times_floor(1.02), floor, spread)


def _as_run(home: Home, estimator: Any) -> float:
    run = home.submit(estimator)
    run.wait_for_completion()
    return _slowest(rank_logs(run, RANKS))


def _slowest(printed: list[str]) -> float:
    return max(float(seconds) for output in printed for seconds in TOLD.findall(output))


def _python_of(home: Home) -> str:
    """The interpreter of the one environment that this home has."""
    return str(next((home.path / "environments").glob("*/bin/python")))
