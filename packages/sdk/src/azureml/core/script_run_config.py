from azureml._run_definition import check_job
from azureml.core.environment import checked_environment
from azureml.core.runconfig import (  # noqa: F401
    Data, DatacacheConfiguration, DockerConfiguration, EnvironmentDefinition, MpiConfiguration, PyTorchConfiguration,
    RunConfiguration, TensorflowConfiguration)
from azureml.data.datacache_consumption_config import DatacacheConsumptionConfig  # noqa: F401
from azureml.data.datapath import DataPath, DataPathComputeBinding  # noqa: F401
from azureml.data.dataset_consumption_config import DatasetConsumptionConfig  # noqa: F401
from azureml.exceptions import RunConfigurationException, UserErrorException  # noqa: F401

_DEFAULT_SCRIPT = "train.py"


class ScriptRunConfig(object):
    """A script or a command, its arguments, and how to run it. Submit it with Experiment.submit."""

    DELIM = "#"
    MAX_DURATION_SECONDS_DEFAULT = 2592000

    def __init__(self, source_directory, script=None, arguments=None, run_config=None, _telemetry_values=None,
                 compute_target=None, environment=None, distributed_job_config=None, resume_from=None,
                 max_run_duration_seconds=MAX_DURATION_SECONDS_DEFAULT, command=None, docker_runtime_config=None):
        if command and (script or arguments):
            raise UserErrorException("command excludes script and arguments: give the whole command line there.")
        self.source_directory = source_directory if source_directory else "."
        if run_config is None:
            run_config = _configured(compute_target, environment, distributed_job_config, max_run_duration_seconds,
                                     docker_runtime_config)
        elif compute_target or environment or distributed_job_config or docker_runtime_config:
            _warn("run_config is given, so compute_target, environment, distributed_job_config and "
                  "docker_runtime_config are left out of account.")
        self.run_config = run_config
        self.command = _joined(command or (run_config.command if not script else None))
        self.script = script or run_config.script or (None if self.command else _DEFAULT_SCRIPT)
        self.arguments = _listed(arguments) if arguments is not None else list(run_config.arguments or [])
        self._resume_from = resume_from

    @property
    def identity(self):
        """Text that identifies this object in logs."""
        return "%s%s%d" % (type(self).__name__, self.DELIM, id(self))

    def _to_submission(self, workspace, **overrides):
        from azureml._run_definition import submission
        if overrides:
            raise UserErrorException("A ScriptRunConfig takes no %s at submit." % ", ".join(sorted(overrides)))
        return submission(workspace, self.source_directory, self.run_config, script=self.script, command=self.command,
                          arguments=self.arguments, resume_from=self._resume_from)

    def __repr__(self):
        return "ScriptRunConfig(source_directory=%r, script=%r, command=%r, arguments=%r, target=%r)" % (
            self.source_directory, self.script, self.command, self.arguments, self.run_config.target)


def get_run_config_from_script_run(script_run_config):
    """Run configuration with script, command and arguments of the ScriptRunConfig."""
    import copy
    run_config = copy.copy(script_run_config.run_config)
    run_config.script = script_run_config.script
    run_config.command = script_run_config.command
    run_config.arguments = list(script_run_config.arguments)
    return run_config


def submit(script_run_config, workspace, experiment_name, run_id=None, _parent_run_id=None,
           credential_passthrough=False):
    from azureml.core.experiment import Experiment
    return Experiment(workspace, experiment_name).submit(script_run_config)


def _configured(compute_target, environment, job, max_run_duration_seconds, docker_runtime_config):
    run_config = RunConfiguration()
    if compute_target is not None:
        run_config.target = compute_target
    if environment is not None:
        run_config.environment = checked_environment("environment", environment)
    else:
        run_config.environment.name = "default-environment"
    if docker_runtime_config is not None:
        run_config.docker = docker_runtime_config
    run_config.max_run_duration_seconds = max_run_duration_seconds
    if job is not None:
        _distribute(run_config, job)
    return run_config


def _distribute(run_config, job):
    check_job(job)
    if isinstance(job, MpiConfiguration):
        run_config.mpi, run_config.node_count = job, job.node_count
        run_config.framework, run_config.communicator = "Python", "IntelMpi"
    elif isinstance(job, TensorflowConfiguration):
        run_config.tensorflow, run_config.node_count = job, job.worker_count
        run_config.framework, run_config.communicator = "TensorFlow", "ParameterServer"
    elif isinstance(job, PyTorchConfiguration):
        run_config.pytorch, run_config.node_count = job, job.node_count
        run_config.framework, run_config.communicator = "PyTorch", job.communication_backend
    else:
        raise UserErrorException("distributed_job_config must be an MpiConfiguration, TensorflowConfiguration or "
                                 "PyTorchConfiguration, got %r." % (job,))


def _joined(command):
    if command is None or isinstance(command, str):
        return command or None
    return list(command)


def _listed(arguments):
    if not isinstance(arguments, (list, tuple)):
        raise UserErrorException("arguments must be a list, one item per word, got %r." % (arguments,))
    return list(arguments)


def _warn(text):
    import warnings
    warnings.warn(text, stacklevel=3)
