from azureml.data._refused_kinds import DBFS, refused_class
from azureml.data.abstract_datastore import AbstractDatastore  # noqa: F401

DBFSDatastore = refused_class("DBFSDatastore", DBFS)
