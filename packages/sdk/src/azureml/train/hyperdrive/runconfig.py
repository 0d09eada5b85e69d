"""Sweep configurations: HyperDriveConfig, and its 2018 name HyperDriveRunConfig."""

import functools
import json
import warnings
from enum import Enum

from azureml._unsupported import not_yet
from azureml.core.run import Run  # noqa: F401
from azureml.core.script_run_config import ScriptRunConfig, get_run_config_from_script_run  # noqa: F401
from azureml.exceptions import TrainingException, UserErrorException  # noqa: F401
from azureml.train.hyperdrive._settings import InvalidSetting, instance, text, whole_number
from azureml.train.hyperdrive.exceptions import HyperDriveConfigException  # noqa: F401
from azureml.train.hyperdrive.policy import EarlyTerminationPolicy, NoTerminationPolicy, policy_of
from azureml.train.hyperdrive.sampling import (
    BayesianParameterSampling, HyperParameterSampling, argument_name, sampling_of)
from runyard_sdk.client import quoted
from runyard_sdk.errors import NotFound
from runyard_sdk.ids import uuid4

MAX_DURATION_MINUTES = 10080
HYPERDRIVE_URL_SUFFIX = "/hyperdrive/v1.0"
MAX_PARENT_RUNS = 5
RESUME_FROM_TOTAL_RUNS = 1000
RECOMMENDED_MIN_RUNS_PER_PARAMETER_BAYESIAN = 20
RECOMMENDED_MAX_CONCURRENT_RUNS_BAYESIAN = 20
TERMINAL_STATES = ["Canceled", "Completed", "Failed"]
SWEEP_TYPE = "hyperdrive"


class PrimaryMetricGoal(Enum):
    """Whether larger or smaller values of the primary metric are better."""

    MAXIMIZE = "MAXIMIZE"
    MINIMIZE = "MINIMIZE"

    @staticmethod
    def from_str(goal):
        """Goal of this name, case-insensitive."""
        try:
            return PrimaryMetricGoal(str(goal).upper())
        except ValueError:
            raise InvalidSetting("goal must be 'maximize' or 'minimize', got %r." % (goal,))


class HyperDriveConfig(object):
    """A sweep over script arguments: search space, primary metric, early termination. Submit it with Experiment.submit.
    Raises here for invalid settings, at submit for a missing script."""

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
        self._resume_from = _checked_sweeps(resume_from, MAX_PARENT_RUNS)
        self._resume_child_runs = _checked_children(resume_child_runs, RESUME_FROM_TOTAL_RUNS)
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
        """Source folder of the sweep; None for the config of a run that was looked up."""
        return getattr(self._estimator or self._run_config, "source_directory", None)

    def _to_json(self):
        """Sweep in the form of docs/wire.md."""
        return {"sampling": self._sampling.to_json(), "policy": self._policy.to_json(),
                "primary_metric": {"name": self._metric, "goal": self._goal.name.lower()},
                "max_total_runs": self._max_total_runs, "max_concurrent_runs": self._max_concurrent_runs,
                "max_duration_minutes": self._max_duration_minutes,
                "resume_from": self._resume_from, "resume_child_runs": self._resume_child_runs}

    @classmethod
    def _of_json(cls, sweep):
        """Config of a submitted sweep, without what was run."""
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
        return _sweep_submission(self, workspace, overrides)

    def _submitted_as(self, run):
        run._hyperdrive_config = self

    def __repr__(self):
        return "HyperDriveConfig(%r, primary_metric_name=%r, primary_metric_goal=%s, max_total_runs=%d)" % (
            self._sampling, self._metric, self._goal, self._max_total_runs)


class HyperDriveRunConfig(HyperDriveConfig):
    """First name of HyperDriveConfig. The estimator may be the first argument, as in 2018."""

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
    advice = []
    fewest = RECOMMENDED_MIN_RUNS_PER_PARAMETER_BAYESIAN * len(config._sampling._parameter_space)
    if config._max_total_runs < fewest:
        advice.append("max_total_runs=%d is little for Bayesian sampling of this space: it learns from its own trials; "
                      "%d or more are advised." % (config._max_total_runs, fewest))
    if config._max_concurrent_runs > RECOMMENDED_MAX_CONCURRENT_RUNS_BAYESIAN:
        advice.append("max_concurrent_runs=%d is much for Bayesian sampling: what runs at the same time cannot be "
                      "learnt from; at most %d are advised." % (
                          config._max_concurrent_runs, RECOMMENDED_MAX_CONCURRENT_RUNS_BAYESIAN))
    if not isinstance(config._policy, NoTerminationPolicy):
        advice.append("Bayesian sampling takes no account of a policy: %r stops no child of this sweep." % (
            config._policy,))
    for message in advice:
        warnings.warn(message, stacklevel=3)


def _sweep_submission(config, workspace, overrides):
    """Submission of one child without sampled values, with the sweep in it."""
    if overrides:
        raise InvalidSetting("A HyperDriveConfig takes no %s at submit." % ", ".join(sorted(overrides)))
    run_id = "HD_" + uuid4() if config._custom_run_id is None else _unused(workspace, config._custom_run_id)
    sweep = config._to_json()
    made = _of_one_child(config, workspace)
    made["definition"]["runyard"]["sweep"] = sweep
    made["properties"].update({
        "primary_metric_config": json.dumps(sweep["primary_metric"]),
        "resume_from": json.dumps(sweep["resume_from"] or None), "runTemplate": "HyperDrive",
        "azureml.runsource": "hyperdrive", "platform": "AML"})
    return dict(made, type=SWEEP_TYPE, run_id=run_id, tags=_sweep_tags(sweep, made["definition"].get("target")))


def _sweep_tags(sweep, target):
    """Settings as the original stores them in tags of a sweep, each under two names."""
    settings = {
        "generator_config": json.dumps(sweep["sampling"]),
        "primary_metric_config": json.dumps(sweep["primary_metric"]),
        "policy_config": json.dumps(sweep["policy"]),
        "max_total_jobs": str(sweep["max_total_runs"]),
        "max_concurrent_jobs": str(sweep["max_concurrent_runs"]),
        "max_duration_minutes": str(sweep["max_duration_minutes"]),
        "platform_config": json.dumps({"target": target}),
    }
    return dict(settings, **{"_aml_system_" + name: value for name, value in settings.items()})


def _unused(workspace, run_id):
    """Return the id. Raises InvalidSetting if a run has it: submitting again would return that run."""
    try:
        workspace._client.get("/runs/" + quoted(run_id))
    except NotFound:
        return run_id
    raise InvalidSetting("custom_run_id %r is that of a run that there is. Give another one, or none." % run_id)


def _of_one_child(config, workspace):
    if config.run_config is not None:
        return config.run_config._to_submission(workspace)
    if config.estimator is None:
        raise InvalidSetting("This HyperDriveConfig was read from a sweep: it says what was swept, and not which "
                             "script. Make a new one with estimator or run_config.")
    return config.estimator._to_submission(workspace, **_without_sampled(config))


def _without_sampled(config):
    """script_params without those that the sweep samples, with a warning; {} if it samples none of them."""
    given = (getattr(config.estimator, "_settings", None) or {}).get("script_params") or {}
    sampled = {argument_name(name) for name in config._sampling._parameter_space}
    double = [name for name in given if argument_name(str(name)) in sampled]
    if not double:
        return {}
    warnings.warn("script_params gives %s, which the sweep samples: the sampled values are used." % (
        ", ".join(map(str, double))), stacklevel=7)
    return {"script_params": {name: value for name, value in given.items() if name not in double}}


def _checked_sweeps(resume_from, most):
    """Ids of the sweeps to warm-start from: a HyperDriveRun, or a list of them."""
    runs = _checked_runs("resume_from", resume_from, most)
    for run in runs:
        if run.type != SWEEP_TYPE:
            raise InvalidSetting("resume_from takes sweeps (HyperDriveRun), and run %s is of type %s." % (
                run.id, run.type))
    return [run.id for run in runs]


def _checked_children(resume_child_runs, most):
    """Ids of the child runs to resume: a run, or a list of them."""
    runs = _checked_runs("resume_child_runs", resume_child_runs, most)
    for run in runs:
        if not run._record.get("parent_id"):
            raise InvalidSetting("resume_child_runs takes children of sweeps, and run %s has no parent." % run.id)
    return [run.id for run in runs]


def _checked_runs(name, given, most):
    runs = [] if given is None else list(given) if isinstance(given, (list, tuple)) else [given]
    strange = [run for run in runs if not isinstance(run, Run)]
    if strange:
        raise InvalidSetting("%s must be a run or a list of runs, got %r. Look a run up by its id with "
                             "workspace.get_run(run_id)." % (name, strange[0]))
    if len(runs) > most:
        raise InvalidSetting("%s takes at most %d runs, got %d." % (name, most, len(runs)))
    if len({run.id for run in runs}) != len(runs):
        raise InvalidSetting("%s names a run twice." % name)
    return runs
