from azureml.core.run import Run  # noqa: F401
from azureml.data._unsupported import PROFILE, refused_class

DatasetProfileRun = refused_class("DatasetProfileRun", PROFILE)
