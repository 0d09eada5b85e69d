from azureml._not_yet import not_yet_class
from azureml.exceptions import AzureMLException  # noqa: F401

DatasetProfile = not_yet_class("DatasetProfile", 2, "azureml.data")
