"""The model that both examples deploy, trained by a run and registered with its framework."""

from pathlib import Path

from azureml.core import Experiment, Model
from azureml.train.estimator import Estimator

TRAINING = Path(__file__).parent / "training"


def iris_model(workspace):
    """The newest version of the model `iris`; the first is made."""
    known = Model.list(workspace, name="iris", latest=True)
    return known[0] if known else _train(workspace)


def _train(workspace):
    estimator = Estimator(
        source_directory=str(TRAINING),
        entry_script="train.py",
        compute_target="local",
        pip_packages=["scikit-learn", "joblib"],
    )
    run = Experiment(workspace, "iris").submit(estimator)
    run.wait_for_completion(show_output=True)
    return run.register_model("iris", model_path="outputs/iris.joblib", model_framework=Model.Framework.SCIKITLEARN)
