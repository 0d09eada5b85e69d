from azureml.data._refused_kinds import DATABASE, refused_class
from azureml.data.data_reference import DataReference  # noqa: F401

SqlDataReference = refused_class("SqlDataReference", DATABASE)
