"""Deploy a registered model with a scoring script, and ask it."""

import json
from pathlib import Path

from registered import iris_model

from azureml.core import Environment, Model, Workspace
from azureml.core.conda_dependencies import CondaDependencies
from azureml.core.model import InferenceConfig

workspace = Workspace.from_config()
model = iris_model(workspace)

environment = Environment("iris-scoring")
environment.python.conda_dependencies = CondaDependencies.create(pip_packages=["scikit-learn", "joblib"])
scoring = InferenceConfig("score.py", source_directory=str(Path(__file__).parent / "scoring"), environment=environment)
service = Model.deploy(workspace, "iris", [model], scoring, overwrite=True)
service.wait_for_deployment(show_output=True)

print(service.scoring_uri)
print(service.run(json.dumps({"measures": [[5.1, 3.5, 1.4, 0.2], [6.3, 3.3, 6.0, 2.5]]})))
