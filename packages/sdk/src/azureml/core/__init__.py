"""Workspace, Experiment, Run and related classes. Each is imported on first use."""

from azureml._lazy import lazy_names
from azureml._version import VERSION

__version__ = VERSION
RUN_TYPE_PROVIDERS_ENTRYPOINT_KEY = "azureml_run_type_providers"
_HOMES = {
    "ComputeTarget": "compute", "ContainerRegistry": "container_registry", "Dataset": "dataset",
    "Datastore": "datastore", "Environment": "environment", "Experiment": "experiment", "Image": "image",
    "Keyvault": "keyvault", "LinkedService": "linked_service", "Model": "model",
    "PrivateEndPoint": "private_endpoint", "PrivateEndPointConfig": "private_endpoint", "Run": "run",
    "RunConfiguration": "runconfig", "ScriptRun": "script_run", "ScriptRunConfig": "script_run_config",
    "SynapseWorkspaceLinkedServiceConfiguration": "linked_service", "Webservice": "webservice",
    "Workspace": "workspace", "attach_legacy_compute_target": "compute_target", "get_run": "run",
    "is_compute_target_prepared": "compute_target", "prepare_compute_target": "compute_target",
    "remove_legacy_compute_target": "compute_target",
}
__all__ = sorted(_HOMES) + ["VERSION"]
lazy_names(__name__, {name: "azureml.core." + home for name, home in _HOMES.items()})
