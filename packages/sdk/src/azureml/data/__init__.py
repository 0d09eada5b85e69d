from azureml._version import VERSION
from azureml.data._unsupported import DatacacheStore
from azureml.data.dataset_factory import DataType
from azureml.data.file_dataset import FileDataset
from azureml.data.output_dataset_config import (
    HDFSOutputDatasetConfig, LinkFileOutputDatasetConfig, LinkTabularOutputDatasetConfig, OutputFileDatasetConfig)
from azureml.data.tabular_dataset import TabularDataset

__version__ = VERSION
__all__ = ["DataType", "DatacacheStore", "FileDataset", "HDFSOutputDatasetConfig", "LinkFileOutputDatasetConfig",
           "LinkTabularOutputDatasetConfig", "OutputFileDatasetConfig", "TabularDataset"]
