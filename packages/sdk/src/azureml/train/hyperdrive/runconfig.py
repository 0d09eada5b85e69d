from enum import Enum

from azureml._not_yet import not_yet, not_yet_class
from azureml.core.run import Run  # noqa: F401
from azureml.core.script_run_config import ScriptRunConfig, get_run_config_from_script_run  # noqa: F401
from azureml.exceptions import TrainingException, UserErrorException  # noqa: F401
from azureml.train.hyperdrive.exceptions import HyperDriveConfigException
from azureml.train.hyperdrive.policy import NoTerminationPolicy  # noqa: F401
from azureml.train.hyperdrive.sampling import BayesianParameterSampling  # noqa: F401

MAX_DURATION_MINUTES = 10080
HYPERDRIVE_URL_SUFFIX = "/hyperdrive/v1.0"
MAX_PARENT_RUNS = 5
RESUME_FROM_TOTAL_RUNS = 1000
RECOMMENDED_MIN_RUNS_PER_PARAMETER_BAYESIAN = 20
RECOMMENDED_MAX_CONCURRENT_RUNS_BAYESIAN = 20
TERMINAL_STATES = ["Canceled", "Completed", "Failed"]


class PrimaryMetricGoal(Enum):
    MAXIMIZE = "maximize"
    MINIMIZE = "minimize"

    @staticmethod
    def from_str(goal):
        try:
            return PrimaryMetricGoal(str(goal).lower())
        except ValueError:
            raise HyperDriveConfigException("goal must be 'maximize' or 'minimize', got %r." % (goal,))


class HyperDriveConfig(object):
    """A sweep over hyperparameters. It can be described; submitting one says that it is not there yet."""

    def __init__(self, hyperparameter_sampling, primary_metric_name, primary_metric_goal, max_total_runs,
                 max_concurrent_runs=None, max_duration_minutes=MAX_DURATION_MINUTES, policy=None, estimator=None,
                 run_config=None, resume_from=None, resume_child_runs=None, pipeline=None, debug_flag=None,
                 custom_run_id=None):
        if [estimator, run_config, pipeline].count(None) != 2:
            raise HyperDriveConfigException("Give exactly one of estimator, run_config and pipeline.")
        self._estimator, self._run_config, self._pipeline = estimator, run_config, pipeline

    @property
    def estimator(self):
        return self._estimator

    @property
    def run_config(self):
        return self._run_config

    @property
    def pipeline(self):
        return self._pipeline

    @property
    def source_directory(self):
        return getattr(self._estimator or self._run_config, "source_directory", None)

    def _to_submission(self, workspace, **overrides):
        raise not_yet("A sweep over hyperparameters (HyperDriveConfig)")


HyperDriveRunConfig = not_yet_class("HyperDriveRunConfig", "azureml.train.hyperdrive")
