"""What both examples share: a model that a run trained, registered with its framework, and the packages of that run."""

from pathlib import Path

from azureml.core import Environment, Experiment, Model, ScriptRunConfig
from azureml.core.conda_dependencies import CondaDependencies

TRAINING = Path(__file__).parent / "training"


def iris_environment():
    environment = Environment("iris")
    environment.python.conda_dependencies = CondaDependencies.create(pip_packages=["scikit-learn", "joblib"])
    return environment


def iris_model(workspace):
    """The newest version of the model `iris`; the first is made."""
    known = Model.list(workspace, name="iris", latest=True)
    return known[0] if known else _train(workspace)


def _train(workspace):
    training = ScriptRunConfig(str(TRAINING), "train.py", environment=iris_environment())
    run = Experiment(workspace, "iris").submit(training)
    run.wait_for_completion(show_output=True)
    return run.register_model("iris", model_path="outputs/iris.joblib", model_framework=Model.Framework.SCIKITLEARN)
