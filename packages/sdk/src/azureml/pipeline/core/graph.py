from azureml.core.dataset import Dataset  # noqa: F401
from azureml.data.abstract_dataset import AbstractDataset  # noqa: F401
from azureml.data.data_reference import DataReference  # noqa: F401
from azureml.data.datapath import DataPath, DataPathComputeBinding  # noqa: F401
from azureml.data.dataset_consumption_config import DatasetConsumptionConfig  # noqa: F401
from azureml.data.dataset_definition import DatasetDefinition  # noqa: F401
from azureml.data.file_dataset import FileDataset  # noqa: F401
from azureml.data.sql_data_reference import SqlDataReference  # noqa: F401
from azureml.data.tabular_dataset import TabularDataset  # noqa: F401
from azureml.pipeline.core import (  # noqa: F401
    InputPortBinding, InputPortDef, OutputPortBinding, OutputPortDef, PipelineDataset, PipelineParameter, PipelineRun,
    PortDataReference, PublishedPipeline, TrainingOutput)
