from azureml._not_yet import not_yet_class
from azureml.core.run import Run  # noqa: F401

DatasetProfileRun = not_yet_class("DatasetProfileRun", 2, "azureml.data")
