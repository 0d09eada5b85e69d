from azureml.core.compute._unsupported import (  # noqa: F401
    DataFactoryAttachConfiguration, DataFactoryCompute, DataFactoryProvisioningConfiguration)
from azureml.core.compute.compute import (  # noqa: F401
    MLC_COMPUTE_RESOURCE_ID_FMT, ComputeTarget, ComputeTargetAttachConfiguration,
    ComputeTargetProvisioningConfiguration)
from azureml.exceptions import ComputeTargetException  # noqa: F401
