from azureml.data.data_reference import DataReference  # noqa: F401
from azureml.pipeline.core import OutputPortBinding, PipelineData, PipelineStep, TrainingOutput  # noqa: F401
from azureml.pipeline.steps import HyperDriveStep, HyperDriveStepRun  # noqa: F401
from azureml.train.hyperdrive import HyperDriveRun  # noqa: F401
