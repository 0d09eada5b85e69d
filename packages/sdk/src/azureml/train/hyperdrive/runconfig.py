"""What a sweep is: HyperDriveConfig, and HyperDriveRunConfig, as it was called in 2018."""
import functools
import warnings
from enum import Enum

from azureml._not_yet import not_yet
from azureml.core.run import Run  # noqa: F401
from azureml.core.script_run_config import ScriptRunConfig, get_run_config_from_script_run  # noqa: F401
from azureml.exceptions import TrainingException, UserErrorException  # noqa: F401
from azureml.train.hyperdrive._resuming import checked_children, checked_sweeps
from azureml.train.hyperdrive._settings import InvalidSetting, instance, text, whole_number
from azureml.train.hyperdrive.exceptions import HyperDriveConfigException  # noqa: F401
from azureml.train.hyperdrive.policy import EarlyTerminationPolicy, NoTerminationPolicy, policy_of
from azureml.train.hyperdrive.sampling import BayesianParameterSampling, HyperParameterSampling, sampling_of

MAX_DURATION_MINUTES = 10080
HYPERDRIVE_URL_SUFFIX = "/hyperdrive/v1.0"
MAX_PARENT_RUNS = 5
RESUME_FROM_TOTAL_RUNS = 1000
RECOMMENDED_MIN_RUNS_PER_PARAMETER_BAYESIAN = 20
RECOMMENDED_MAX_CONCURRENT_RUNS_BAYESIAN = 20
TERMINAL_STATES = ["Canceled", "Completed", "Failed"]


class PrimaryMetricGoal(Enum):
    """Whether the larger or the smaller value of the primary metric is the better one."""

    MAXIMIZE = "MAXIMIZE"
    MINIMIZE = "MINIMIZE"

    @staticmethod
    def from_str(goal):
        """The goal of this name, in small or capital letters."""
        try:
            return PrimaryMetricGoal(str(goal).upper())
        except ValueError:
            raise InvalidSetting("goal must be 'maximize' or 'minimize', got %r." % (goal,))


class HyperDriveConfig(object):
    """A sweep over the arguments of a script: what to draw, what to compare, when to stop. Submit it with
    Experiment.submit. What cannot be right is refused here; a missing script at submit."""

    def __init__(self, hyperparameter_sampling, primary_metric_name, primary_metric_goal, max_total_runs,
                 max_concurrent_runs=None, max_duration_minutes=MAX_DURATION_MINUTES, policy=None, estimator=None,
                 run_config=None, resume_from=None, resume_child_runs=None, pipeline=None, debug_flag=None,
                 custom_run_id=None):
        _check_what_is_run(estimator, run_config, pipeline)
        self._estimator, self._run_config, self._pipeline = estimator, run_config, pipeline
        self._sampling = instance("hyperparameter_sampling", hyperparameter_sampling, HyperParameterSampling,
                                  "RandomParameterSampling({...})")
        self._metric = text("primary_metric_name", primary_metric_name)
        self._goal = instance("primary_metric_goal", primary_metric_goal, PrimaryMetricGoal,
                              "PrimaryMetricGoal.MAXIMIZE")
        self._max_total_runs = whole_number("max_total_runs", max_total_runs, 1)
        self._max_concurrent_runs = self._max_total_runs if max_concurrent_runs is None else whole_number(
            "max_concurrent_runs", max_concurrent_runs, 1)
        self._max_duration_minutes = MAX_DURATION_MINUTES if max_duration_minutes is None else whole_number(
            "max_duration_minutes", max_duration_minutes, 1, MAX_DURATION_MINUTES)
        self._policy = NoTerminationPolicy() if policy is None else instance(
            "policy", policy, EarlyTerminationPolicy, "BanditPolicy(slack_factor=0.1)")
        self._resume_from = checked_sweeps(resume_from, MAX_PARENT_RUNS)
        self._resume_child_runs = checked_children(resume_child_runs, RESUME_FROM_TOTAL_RUNS)
        self._debug_flag = debug_flag
        self._custom_run_id = None if custom_run_id is None else text("custom_run_id", custom_run_id)
        _warn_of_bayesian_settings(self)

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
        """The folder that is sent with the sweep; None for the config of a run that was looked up."""
        return getattr(self._estimator or self._run_config, "source_directory", None)

    def _to_json(self):
        """The sweep as the service takes it (docs/wire.md)."""
        return {"sampling": self._sampling.to_json(), "policy": self._policy.to_json(),
                "primary_metric": {"name": self._metric, "goal": self._goal.name.lower()},
                "max_total_runs": self._max_total_runs, "max_concurrent_runs": self._max_concurrent_runs,
                "max_duration_minutes": self._max_duration_minutes,
                "resume_from": self._resume_from, "resume_child_runs": self._resume_child_runs}

    @classmethod
    def _of_json(cls, sweep):
        """The config of a sweep that was submitted. It describes the sweep; what was run is not part of it."""
        metric = sweep["primary_metric"]
        described = cls.__new__(cls)
        described._estimator = described._run_config = described._pipeline = None
        described._sampling, described._policy = sampling_of(sweep["sampling"]), policy_of(sweep["policy"])
        described._metric, described._goal = metric["name"], PrimaryMetricGoal.from_str(metric["goal"])
        described._max_total_runs = sweep["max_total_runs"]
        described._max_concurrent_runs = sweep["max_concurrent_runs"]
        described._max_duration_minutes = sweep["max_duration_minutes"]
        described._resume_from = list(sweep.get("resume_from") or [])
        described._resume_child_runs = list(sweep.get("resume_child_runs") or [])
        described._debug_flag = described._custom_run_id = None
        return described

    def _to_submission(self, workspace, **overrides):
        from azureml.train.hyperdrive._submitting import sweep_submission

        return sweep_submission(self, workspace, overrides)

    def _submitted_as(self, run):
        run._hyperdrive_config = self

    def __repr__(self):
        return "HyperDriveConfig(%r, primary_metric_name=%r, primary_metric_goal=%s, max_total_runs=%d)" % (
            self._sampling, self._metric, self._goal, self._max_total_runs)


class HyperDriveRunConfig(HyperDriveConfig):
    """HyperDriveConfig by its first name. The estimator may come first, as it did in 2018."""

    @functools.wraps(HyperDriveConfig.__init__)
    def __init__(self, *args, **kwargs):
        warnings.warn("HyperDriveRunConfig is deprecated. Use HyperDriveConfig.", stacklevel=2)
        if args and not isinstance(args[0], HyperParameterSampling):
            super(HyperDriveRunConfig, self).__init__(*args[1:], estimator=args[0], **kwargs)
        else:
            super(HyperDriveRunConfig, self).__init__(*args, **kwargs)


def _check_what_is_run(estimator, run_config, pipeline):
    given = [name for name, value in (("estimator", estimator), ("run_config", run_config), ("pipeline", pipeline))
             if value is not None]
    if len(given) != 1:
        raise InvalidSetting("Give exactly one of estimator, run_config and pipeline, got %s." % (
            " and ".join(given) or "none of them"))
    if pipeline is not None:
        raise not_yet("A sweep over a pipeline (HyperDriveConfig(pipeline=...))")
    if run_config is not None:
        instance("run_config", run_config, ScriptRunConfig, "ScriptRunConfig(source_directory, script)")
    elif not hasattr(estimator, "_to_submission") or isinstance(estimator, (ScriptRunConfig, HyperDriveConfig)):
        raise InvalidSetting("estimator must be an estimator, such as Estimator(source_directory, ...), got %r. A "
                             "ScriptRunConfig is given as run_config." % (estimator,))


def _warn_of_bayesian_settings(config):
    if not isinstance(config._sampling, BayesianParameterSampling):
        return
    said = []
    fewest = RECOMMENDED_MIN_RUNS_PER_PARAMETER_BAYESIAN * len(config._sampling._parameter_space)
    if config._max_total_runs < fewest:
        said.append("max_total_runs=%d is little for Bayesian sampling of this space: it learns from its own trials; "
                    "%d or more are advised." % (config._max_total_runs, fewest))
    if config._max_concurrent_runs > RECOMMENDED_MAX_CONCURRENT_RUNS_BAYESIAN:
        said.append("max_concurrent_runs=%d is much for Bayesian sampling: what runs at the same time cannot be learnt "
                    "from; at most %d are advised." % (
                        config._max_concurrent_runs, RECOMMENDED_MAX_CONCURRENT_RUNS_BAYESIAN))
    if not isinstance(config._policy, NoTerminationPolicy):
        said.append("Bayesian sampling takes no account of a policy: %r stops no child of this sweep." % (
            config._policy,))
    for message in said:
        warnings.warn(message, stacklevel=3)
