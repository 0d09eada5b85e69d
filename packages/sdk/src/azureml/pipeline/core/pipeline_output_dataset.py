from azureml.core.datastore import Datastore  # noqa: F401
from azureml.data.dataset_type_definitions import PromoteHeadersBehavior  # noqa: F401
from azureml.data.output_dataset_config import (  # noqa: F401
    HDFSOutputDatasetConfig, LinkFileOutputDatasetConfig, LinkTabularOutputDatasetConfig, OutputFileDatasetConfig,
    OutputTabularDatasetConfig)
