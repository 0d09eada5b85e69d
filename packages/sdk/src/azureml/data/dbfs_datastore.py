from azureml.data._unsupported import DBFS, refused_class
from azureml.data.abstract_datastore import AbstractDatastore  # noqa: F401

DBFSDatastore = refused_class("DBFSDatastore", DBFS)
