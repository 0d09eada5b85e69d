from azureml.core.experiment import HasWorkspacePortal  # noqa: F401
from azureml.core.compute._unsupported import (  # noqa: F401
    ComputeInstance, ComputeInstanceProvisioningConfiguration, ComputeInstanceStatus)
from azureml.core.compute.compute import (  # noqa: F401
    MLC_COMPUTE_RESOURCE_ID_FMT, MLC_WORKSPACE_API_VERSION, ComputeTarget, ComputeTargetProvisioningConfiguration)
from azureml.exceptions import AuthenticationException, ComputeTargetException  # noqa: F401

GRAPH_API_VERSION = "1.6"
