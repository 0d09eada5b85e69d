from azureml._not_yet import not_yet_class
from azureml.data.abstract_datastore import AbstractDatastore  # noqa: F401

AzureSqlDatabaseDatastore = not_yet_class("AzureSqlDatabaseDatastore", 2, "azureml.data")
