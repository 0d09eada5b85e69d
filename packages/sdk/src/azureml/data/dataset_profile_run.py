from azureml.core.run import Run  # noqa: F401
from azureml.data._refused_kinds import PROFILE, refused_class

DatasetProfileRun = refused_class("DatasetProfileRun", PROFILE)
