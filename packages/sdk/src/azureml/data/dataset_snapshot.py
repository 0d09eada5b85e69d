from azureml.data._unsupported import SNAPSHOT, refused_class
from azureml.data.dataset_type_definitions import HistogramCompareMethod  # noqa: F401

DatasetSnapshot = refused_class("DatasetSnapshot", SNAPSHOT)
