from azureml.core import Experiment, RunConfiguration  # noqa: F401
from azureml.core.conda_dependencies import CondaDependencies  # noqa: F401
from azureml.data.dataset_consumption_config import DatasetConsumptionConfig  # noqa: F401
from azureml.data.output_dataset_config import OutputTabularDatasetConfig  # noqa: F401
from azureml.data.tabular_dataset import TabularDataset  # noqa: F401
from azureml.pipeline.core import PipelineData, PipelineStep, TrainingOutput  # noqa: F401
from azureml.pipeline.steps import AutoMLStep, AutoMLStepRun  # noqa: F401
