from azureml.core.compute._unsupported import SynapseAttachConfiguration, SynapseCompute  # noqa: F401
from azureml.core.compute.compute import (  # noqa: F401
    MLC_COMPUTE_RESOURCE_ID_FMT, MLC_LIST_COMPUTES_FMT, ComputeTarget, ComputeTargetAttachConfiguration)
from azureml.core.linked_service import LinkedService  # noqa: F401
from azureml.exceptions import ComputeTargetException  # noqa: F401
