from azureml.data._unsupported import DATABASE, refused_class
from azureml.data.data_reference import DataReference  # noqa: F401

SqlDataReference = refused_class("SqlDataReference", DATABASE)
