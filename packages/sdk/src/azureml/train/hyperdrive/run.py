from azureml._not_yet import not_yet_class
from azureml.core.experiment import Experiment  # noqa: F401
from azureml.core.run import Run  # noqa: F401
from azureml.core.workspace import Workspace  # noqa: F401
from azureml.exceptions import TrainingException  # noqa: F401
from azureml.train.hyperdrive.exceptions import (  # noqa: F401
    HyperDriveConfigException, HyperDriveNotImplementedException)
from azureml.train.hyperdrive.runconfig import TERMINAL_STATES, HyperDriveConfig, PrimaryMetricGoal  # noqa: F401

HyperDriveRun = not_yet_class("HyperDriveRun", "azureml.train.hyperdrive")
