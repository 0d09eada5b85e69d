"""Workspace, Experiment, Run and their kin."""

from azureml._version import VERSION
from azureml.core.compute_target import (
    attach_legacy_compute_target, is_compute_target_prepared, prepare_compute_target, remove_legacy_compute_target)
from azureml.core.compute import ComputeTarget
from azureml.core.container_registry import ContainerRegistry
from azureml.core.dataset import Dataset
from azureml.core.datastore import Datastore
from azureml.core.environment import Environment
from azureml.core.experiment import Experiment
from azureml.core.image import Image
from azureml.core.keyvault import Keyvault
from azureml.core.linked_service import LinkedService, SynapseWorkspaceLinkedServiceConfiguration
from azureml.core.model import Model
from azureml.core.private_endpoint import PrivateEndPoint, PrivateEndPointConfig
from azureml.core.run import Run, get_run
from azureml.core.runconfig import RunConfiguration
from azureml.core.script_run import ScriptRun
from azureml.core.script_run_config import ScriptRunConfig
from azureml.core.webservice import Webservice
from azureml.core.workspace import Workspace


__version__ = VERSION
RUN_TYPE_PROVIDERS_ENTRYPOINT_KEY = "azureml_run_type_providers"
__all__ = [
    "ComputeTarget", "ContainerRegistry", "Dataset", "Datastore", "Environment", "Experiment", "Image", "Keyvault",
    "LinkedService", "Model", "PrivateEndPoint", "PrivateEndPointConfig", "Run", "RunConfiguration", "ScriptRun",
    "ScriptRunConfig", "SynapseWorkspaceLinkedServiceConfiguration", "VERSION", "Webservice", "Workspace",
    "attach_legacy_compute_target", "get_run", "is_compute_target_prepared", "prepare_compute_target",
    "remove_legacy_compute_target",
]
