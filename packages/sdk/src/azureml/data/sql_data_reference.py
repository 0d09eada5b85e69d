from azureml._not_yet import not_yet_class
from azureml.data.data_reference import DataReference  # noqa: F401

SqlDataReference = not_yet_class("SqlDataReference", 2, "azureml.data")
