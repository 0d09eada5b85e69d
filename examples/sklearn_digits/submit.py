"""Submit train.py to this machine, follow it and register what it made."""

from pathlib import Path

from azureml.core import Experiment, Workspace
from azureml.train.estimator import Estimator

workspace = Workspace.from_config()
estimator = Estimator(
    source_directory=str(Path(__file__).parent),
    entry_script="train.py",
    script_params={"--regularization": 0.01},
    compute_target="local",
    pip_packages=["scikit-learn", "joblib"],
)
run = Experiment(workspace, "sklearn-digits").submit(estimator)
run.wait_for_completion(show_output=True)

print("Metrics:", run.get_metrics())
model = run.register_model(model_name="sklearn-digits", model_path="outputs/model.pkl")
print("Registered", model.name, "version", model.version)
