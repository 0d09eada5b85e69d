from azureml.data._unsupported import DATABASE, refused_class
from azureml.data.abstract_datastore import AbstractDatastore  # noqa: F401

AzureMySqlDatastore = refused_class("AzureMySqlDatastore", DATABASE)
