from azureml.core.authentication import ServicePrincipalAuthentication  # noqa: F401
from azureml.core.compute import ComputeTarget  # noqa: F401
from azureml.data.azure_storage_datastore import AzureBlobDatastore  # noqa: F401
from azureml.data.file_dataset import FileDataset  # noqa: F401
from azureml.exceptions import UserErrorException  # noqa: F401
