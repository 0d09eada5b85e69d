from azureml.core.compute._unsupported import DsvmCompute, DsvmProvisioningConfiguration  # noqa: F401
from azureml.core.compute.compute import (  # noqa: F401
    MLC_COMPUTE_RESOURCE_ID_FMT, MLC_WORKSPACE_API_VERSION, ComputeTarget, ComputeTargetProvisioningConfiguration)
from azureml.exceptions import ComputeTargetException  # noqa: F401
