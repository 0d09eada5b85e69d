from azureml.core.compute._elsewhere import ComputeInstance, ComputeInstanceProvisioningConfiguration  # noqa: F401
from azureml.core.compute.compute import (  # noqa: F401
    MLC_COMPUTE_RESOURCE_ID_FMT, ComputeTarget, ComputeTargetProvisioningConfiguration)
from azureml.exceptions import AuthenticationException, ComputeTargetException  # noqa: F401
