from azureml.data._refused_kinds import DATABASE, refused_class
from azureml.data.abstract_datastore import AbstractDatastore  # noqa: F401

AzurePostgreSqlDatastore = refused_class("AzurePostgreSqlDatastore", DATABASE)
