from azureml._not_yet import not_yet_class
from azureml.core import ComputeTarget, Experiment, RunConfiguration, ScriptRunConfig, get_run  # noqa: F401
from azureml.data.dataset_profile_run import DatasetProfileRun  # noqa: F401
from azureml.data.tabular_dataset import TabularDataset  # noqa: F401
from azureml.exceptions import UserErrorException  # noqa: F401

DatasetProfileRunConfig = not_yet_class("DatasetProfileRunConfig", 2, "azureml.data")
