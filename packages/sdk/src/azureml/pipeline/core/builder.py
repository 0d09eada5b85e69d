from azureml.data.abstract_dataset import AbstractDataset  # noqa: F401
from azureml.data.data_reference import DataReference  # noqa: F401
from azureml.data.dataset_consumption_config import DatasetConsumptionConfig  # noqa: F401
from azureml.data.output_dataset_config import OutputDatasetConfig  # noqa: F401
from azureml.pipeline.core import (  # noqa: F401
    InputPortBinding, OutputPortBinding, PipelineData, PipelineDataset, PipelineParameter, PipelineStep,
    PortDataReference, StepSequence)
