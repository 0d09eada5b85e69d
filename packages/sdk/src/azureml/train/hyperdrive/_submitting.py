"""From a HyperDriveConfig to what Experiment.submit sends."""
import json
import warnings

from azureml.train.hyperdrive._resuming import SWEEP_TYPE
from azureml.train.hyperdrive._settings import InvalidSetting
from azureml.train.hyperdrive.sampling import argument_name
from runyard_sdk.client import quoted
from runyard_sdk.errors import NotFound
from runyard_sdk.ids import uuid4


def sweep_submission(config, workspace, overrides):
    """The submission of one child without sampled values, with the sweep in it."""
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
    return dict(made, type=SWEEP_TYPE, run_id=run_id, tags=sweep_tags(sweep, made["definition"].get("target")))


def sweep_tags(sweep, target):
    """The settings as the original keeps them in the tags of a sweep, each under two names."""
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
    """The service takes a second submission of an id for the first one come twice, and answers with that run."""
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
    """The estimator's script_params where the sweep samples some of them: without those, and said."""
    given = (getattr(config.estimator, "_settings", None) or {}).get("script_params") or {}
    sampled = {argument_name(name) for name in config._sampling._parameter_space}
    double = [name for name in given if argument_name(str(name)) in sampled]
    if not double:
        return {}
    warnings.warn("script_params gives %s, which the sweep samples: the sampled values are used." % (
        ", ".join(map(str, double))), stacklevel=7)
    return {"script_params": {name: value for name, value in given.items() if name not in double}}
