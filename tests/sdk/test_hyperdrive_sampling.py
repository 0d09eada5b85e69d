"""What is drawn for the children of a sweep, through a real service."""

import json
from pathlib import Path
from typing import Any

import pytest

from azureml.core import Experiment
from azureml.exceptions import UserErrorException
from azureml.train.hyperdrive import (
    BayesianParameterSampling,
    RandomParameterSampling,
    choice,
    loguniform,
    quniform,
    uniform,
)
from tests.sdk.sweep_scripts import sweep_over, swept

pytestmark = pytest.mark.slow

RATES = {"rate": uniform(0, 1), "--epochs": choice(1, 2)}


def drawn(experiment: Experiment, folder: Path, sampling: Any) -> list[Any]:
    run = swept(experiment, folder, 0, hyperparameter_sampling=sampling, max_total_runs=4, max_concurrent_runs=1)
    return [json.loads(text) for text in run.get_hyperparameters().values()]


@pytest.mark.filterwarnings("ignore:max_total_runs")
@pytest.mark.parametrize(
    ("kind", "properties"),
    [
        (RandomParameterSampling, {"seed": 3}),
        (RandomParameterSampling, {"seed": 3, "rule": "sobol"}),
        (BayesianParameterSampling, {"seed": 3}),
    ],
)
def test_a_seed_draws_the_same_values_again(
    experiment: Experiment, tmp_path: Path, kind: Any, properties: dict[str, Any]
) -> None:
    first = drawn(experiment, tmp_path / "source", kind(RATES, properties))
    assert first == drawn(experiment, tmp_path / "source", kind(RATES, properties))
    assert first != drawn(experiment, tmp_path / "source", kind(RATES, dict(properties, seed=4)))
    assert len({values["rate"] for values in first}) == 4
    assert {values["--epochs"] for values in first} <= {1, 2}


def test_every_range_keeps_to_its_bounds(experiment: Experiment, tmp_path: Path) -> None:
    space = {"rate": loguniform(-6, -1), "--epochs": quniform(1, 3, 1)}
    script = "from azureml.core import Run\nRun.get_context().log('acc', 1)\n"
    run = swept(
        experiment, tmp_path / "source", 0, text=script, max_total_runs=6,
        hyperparameter_sampling=RandomParameterSampling(space),
    )  # fmt: skip
    for text in run.get_hyperparameters().values():
        values = json.loads(text)
        assert 0.0024 < values["rate"] < 0.368
        assert values["--epochs"] in (1, 2, 3)


def test_what_only_the_service_can_see_is_refused_at_submit(experiment: Experiment, tmp_path: Path) -> None:
    space = {"rate": loguniform(0, 1000)}
    config = sweep_over(tmp_path / "source", 0, hyperparameter_sampling=RandomParameterSampling(space))
    with pytest.raises(UserErrorException, match="beyond the largest number"):
        experiment.submit(config)
    assert list(experiment.get_runs()) == []
