from azureml.core.compute._elsewhere import (  # noqa: F401
    AksAttachConfiguration, AksCompute, AksProvisioningConfiguration, AksUpdateConfiguration, SslConfiguration,
    SystemService)
from azureml.core.compute.compute import (  # noqa: F401
    MLC_COMPUTE_RESOURCE_ID_FMT, MLC_WORKSPACE_API_VERSION, ComputeTarget, ComputeTargetAttachConfiguration,
    ComputeTargetProvisioningConfiguration, ComputeTargetUpdateConfiguration)
from azureml.exceptions import ComputeTargetException  # noqa: F401
