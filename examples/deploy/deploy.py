"""Deploy a registered model with a scoring script, and ask it."""

import json
from pathlib import Path

from registered import iris_environment, iris_model

from azureml.core import Model, Workspace
from azureml.core.model import InferenceConfig

SCORING = Path(__file__).parent / "scoring"

workspace = Workspace.from_config()
model = iris_model(workspace)
scoring = InferenceConfig("score.py", source_directory=str(SCORING), environment=iris_environment())
service = Model.deploy(workspace, "iris", [model], scoring, overwrite=True)
service.wait_for_deployment(show_output=True)

print(service.scoring_uri)
print(service.run(json.dumps({"measures": [[5.1, 3.5, 1.4, 0.2], [6.3, 3.3, 6.0, 2.5]]})))
