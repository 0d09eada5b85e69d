from azureml.data._unsupported import HDFS, refused_class
from azureml.data.abstract_datastore import AbstractDatastore  # noqa: F401

HDFSDatastore = refused_class("HDFSDatastore", HDFS)
