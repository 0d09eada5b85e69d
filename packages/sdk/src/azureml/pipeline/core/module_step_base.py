from azureml.data.data_reference import DataReference  # noqa: F401
from azureml.pipeline.core import (  # noqa: F401
    InputPortBinding, PipelineData, PipelineDataset, PipelineStep, PortDataReference)
