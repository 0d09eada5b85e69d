from azureml._not_yet import not_yet_class
from azureml.data.abstract_datastore import AbstractDatastore  # noqa: F401

AbstractADLSDatastore = not_yet_class("AbstractADLSDatastore", 2, "azureml.data")
AzureDataLakeDatastore = not_yet_class("AzureDataLakeDatastore", 2, "azureml.data")
AzureDataLakeGen2Datastore = not_yet_class("AzureDataLakeGen2Datastore", 2, "azureml.data")
