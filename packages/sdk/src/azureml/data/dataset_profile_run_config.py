from azureml.core import ComputeTarget, Experiment, RunConfiguration, ScriptRunConfig, get_run  # noqa: F401
from azureml.data._unsupported import PROFILE, refused_class
from azureml.data.dataset_profile_run import DatasetProfileRun  # noqa: F401
from azureml.data.tabular_dataset import TabularDataset  # noqa: F401
from azureml.exceptions import UserErrorException  # noqa: F401

DatasetProfileRunConfig = refused_class("DatasetProfileRunConfig", PROFILE)
