from azureml._not_yet import not_yet_class
from azureml.data.dataset_type_definitions import HistogramCompareMethod  # noqa: F401

DatasetSnapshot = not_yet_class("DatasetSnapshot", 2, "azureml.data")
