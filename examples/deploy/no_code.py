"""Deploy a registered model without a line of scoring code, and ask it."""

import json

from registered import iris_model

from azureml.core import Model, Workspace

workspace = Workspace.from_config()

service = Model.deploy(workspace, "iris-no-code", [iris_model(workspace)], overwrite=True)
service.wait_for_deployment(show_output=True)

print(service.scoring_uri)
print(service.run(json.dumps({"data": [[5.1, 3.5, 1.4, 0.2], [6.3, 3.3, 6.0, 2.5]], "method": "predict"})))
