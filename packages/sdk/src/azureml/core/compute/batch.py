from azureml.core.compute._unsupported import BatchAttachConfiguration, BatchCompute  # noqa: F401
from azureml.core.compute.compute import (  # noqa: F401
    MLC_COMPUTE_RESOURCE_ID_FMT, ComputeTarget, ComputeTargetAttachConfiguration)
from azureml.exceptions import ComputeTargetException  # noqa: F401
