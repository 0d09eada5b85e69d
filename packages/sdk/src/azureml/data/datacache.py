from azureml.core.datastore import Datastore  # noqa: F401
from azureml.core.run import Run  # noqa: F401
from azureml.data._unsupported import DatacacheHydrationTracker, DatacacheStore  # noqa: F401
from azureml.exceptions import AzureMLException, UserErrorException  # noqa: F401
