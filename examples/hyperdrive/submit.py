"""Tune train.py, register the model of the best child, deploy it and ask it once."""

import json
from math import log
from pathlib import Path

from azureml.core import Experiment, Model, Workspace
from azureml.train.estimator import Estimator
from azureml.train.hyperdrive import (
    BanditPolicy,
    HyperDriveConfig,
    PrimaryMetricGoal,
    RandomParameterSampling,
    choice,
    loguniform,
)

A_SEVEN = """
.######.
.....##.
.....#..
....##..
..#####.
...##...
...#....
..##....
"""

workspace = Workspace.from_config()
estimator = Estimator(
    source_directory=str(Path(__file__).parent),
    entry_script="train.py",
    script_params={"--epochs": 20},
    compute_target="local",
    pip_packages=["scikit-learn", "joblib"],
)
sweep = HyperDriveConfig(
    estimator=estimator,
    hyperparameter_sampling=RandomParameterSampling(
        {
            "--learning-rate": loguniform(log(0.00001), log(0.3)),
            "--hidden": choice(8, 16, 32, 64),
            "--batch-size": choice(16, 32, 64),
        },
        properties={"seed": 7},
    ),
    primary_metric_name="accuracy",
    primary_metric_goal=PrimaryMetricGoal.MAXIMIZE,
    # From the fourth epoch on a child must come within a tenth of the best one at that epoch.
    policy=BanditPolicy(slack_factor=0.1, evaluation_interval=1, delay_evaluation=4),
    max_total_runs=16,
    max_concurrent_runs=4,
)

run = Experiment(workspace, "hyperdrive-digits").submit(sweep)
run.wait_for_completion(show_output=True)

print("The best five:")
for child in run.get_children_sorted_by_primary_metric(top=5):
    print(child["run_id"], child["status"], child["best_primary_metric"], child["hyperparameters"])

best = run.get_best_run_by_primary_metric()
model = best.register_model(
    "hyperdrive-digits", model_path="outputs/model.pkl", model_framework=Model.Framework.SCIKITLEARN
)
print("Registered", model.name, "version", model.version, "of", best.id)

service = Model.deploy(workspace, "hyperdrive-digits", [model], overwrite=True)
service.wait_for_deployment(show_output=True)
image = [float(pixel == "#") for row in A_SEVEN.split() for pixel in row]
print(service.scoring_uri)
print(service.run(json.dumps({"data": [image], "method": "predict"})))
