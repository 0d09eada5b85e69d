from azureml._not_yet import not_yet_class
from azureml.data.abstract_datastore import AbstractDatastore  # noqa: F401

AzureMySqlDatastore = not_yet_class("AzureMySqlDatastore", 2, "azureml.data")
