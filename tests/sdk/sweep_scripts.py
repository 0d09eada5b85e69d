"""Scripts that a sweep tunes, and their sweeps, on this interpreter."""

from pathlib import Path
from typing import Any

from azureml.core import Experiment
from azureml.train.hyperdrive import GridParameterSampling, HyperDriveConfig, PrimaryMetricGoal, choice
from tests.sdk.yard import config

TUNED = """
import argparse, os
from azureml.core import Run

parser = argparse.ArgumentParser()
parser.add_argument("--rate", type=float)
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--resume-from")
given = parser.parse_args()
run = Run.get_context(allow_offline=False)
if given.resume_from:
    print("resuming from", sorted(os.listdir(given.resume_from)))
if given.rate < 0:
    raise ValueError("a negative rate")
for epoch in range(given.epochs):
    run.log("acc", given.rate * (epoch + 1))
os.makedirs("outputs", exist_ok=True)
with open("outputs/model.txt", "a") as sink:
    sink.write("rate %s\\n" % given.rate)
"""


def sweep_over(folder: Path, *rates: float, text: str = TUNED, arguments: tuple[Any, ...] = (), **changes: Any) -> Any:
    """A grid over the rates, of which the largest is the best."""
    settings: dict[str, Any] = {
        "hyperparameter_sampling": GridParameterSampling({"--rate": choice(*rates)}),
        "primary_metric_name": "acc",
        "primary_metric_goal": PrimaryMetricGoal.MAXIMIZE,
        "max_total_runs": 10,
        "max_concurrent_runs": 2,
        "run_config": config(folder, text, *arguments),
    }
    return HyperDriveConfig(**{**settings, **changes})


def swept(experiment: Experiment, folder: Path, *rates: float, **changes: Any) -> Any:
    """A sweep that has ended."""
    run = experiment.submit(sweep_over(folder, *rates, **changes))
    run.wait_for_completion()
    return run
