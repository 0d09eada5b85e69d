from azureml._not_yet import not_yet_class
from azureml.data.abstract_datastore import AbstractDatastore  # noqa: F401

DBFSDatastore = not_yet_class("DBFSDatastore", 2, "azureml.data")
