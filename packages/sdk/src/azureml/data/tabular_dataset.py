from azureml._not_yet import not_yet_class
from azureml.data.abstract_dataset import AbstractDataset  # noqa: F401
from azureml.data.file_dataset import FileDataset  # noqa: F401
from azureml.exceptions import AzureMLException, DatasetTimestampMissingError, UserErrorException  # noqa: F401

TabularDataset = not_yet_class("TabularDataset", 2, "azureml.data")
