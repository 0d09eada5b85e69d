"""Estimators: a script, its parameters and its environment in one object."""
from azureml._arguments import Inputs, from_params
from azureml.core.runconfig import RunConfiguration
from azureml.exceptions import ComputeTargetException, ExperimentExecutionException, TrainingException
from azureml.train._distributed_training import Gloo, Mpi, Nccl, ParameterServer, distribute
from azureml.train._estimator_environment import (
    build_environment, check_environment_settings, names_all_packages, with_new_names)

__all__ = ["Estimator", "Gloo", "MMLBaseEstimator", "MMLBaseEstimatorRunConfig", "Mpi", "Nccl", "ParameterServer",
           "_FrameworkBaseEstimator"]

_ONE_OFF = "amlcompute"
_MAY_CHANGE_AT_SUBMIT = ("inputs", "script_params", "source_directory_data_store")


class MMLBaseEstimator(object):
    """What every estimator has. Errors in the settings are raised by the constructor, a missing script at submit."""

    _estimator_name = "Estimator"

    def __init__(self, source_directory, *, compute_target, estimator_config=None):
        self._source_directory = source_directory or "."
        self._run_config = estimator_config or RunConfiguration()
        self._run_config.target = compute_target
        self._settings, self._inputs = {}, Inputs()

    @property
    def source_directory(self):
        return self._source_directory

    @property
    def run_config(self):
        return self._run_config

    @property
    def conda_dependencies(self):
        return self._run_config.environment.python.conda_dependencies

    def _configure(self, given, framework_packages=()):
        """Check the constructor's arguments and build the run configuration from them."""
        settings = with_new_names(given)
        self._source_directory = settings.pop("source_directory") or "."
        for name in ("node_count", "process_count_per_node"):
            settings.setdefault(name, 1)
        self._settings = settings
        check_environment_settings(settings)
        self._run_config = RunConfiguration(script=settings.get("entry_script"))
        _set_target(self._run_config, settings)
        distribute(self._estimator_name, self._run_config, settings)
        _check_target(self._run_config)
        self._run_config.environment = build_environment(settings, self._source_directory, framework_packages)
        self._run_config.max_run_duration_seconds = settings.get("max_run_duration_seconds")
        self._run_config.source_directory_data_store = getattr(
            settings.get("source_directory_data_store"), "name", settings.get("source_directory_data_store"))
        self._inputs, self._run_config.arguments = _bound(settings)

    def _to_submission(self, workspace, **overrides):
        from azureml._run_definition import submission
        unknown = sorted(set(overrides) - set(_MAY_CHANGE_AT_SUBMIT))
        if unknown:
            raise TrainingException("submit can change %s of an estimator, not %s." % (
                ", ".join(_MAY_CHANGE_AT_SUBMIT), ", ".join(unknown)))
        inputs, arguments = self._inputs, self._run_config.arguments
        if overrides:
            inputs, arguments = _bound(dict(self._settings, **overrides))
        try:
            made = submission(workspace, self._source_directory, self._run_config, script=self._run_config.script,
                              arguments=arguments, inputs=inputs, estimator=self._estimator_facts())
        except ExperimentExecutionException as error:
            raise TrainingException(error.message, inner_exception=error)
        return made

    def _estimator_facts(self):
        return {"framework": None, "version": None, "use_gpu": bool(self._settings.get("use_gpu"))}

    def __repr__(self):
        return "%s(source_directory=%r, entry_script=%r, compute_target=%r)" % (
            type(self).__name__, self._source_directory, self._run_config.script, self._run_config.target)


class Estimator(MMLBaseEstimator):
    """An estimator for any framework: name its packages yourself."""

    def __init__(self, source_directory, *, compute_target=None, vm_size=None, vm_priority=None, entry_script=None,
                 script_params=None, node_count=1, process_count_per_node=1, distributed_backend=None,
                 distributed_training=None, use_gpu=False, use_docker=True, custom_docker_base_image=None,
                 custom_docker_image=None, image_registry_details=None, user_managed=False, conda_packages=None,
                 pip_packages=None, conda_dependencies_file_path=None, pip_requirements_file_path=None,
                 conda_dependencies_file=None, pip_requirements_file=None, environment_variables=None,
                 environment_definition=None, inputs=None, source_directory_data_store=None, shm_size=None,
                 resume_from=None, max_run_duration_seconds=None, _disable_validation=True, _show_lint_warnings=False,
                 _show_package_warnings=False):
        self._configure(given_to(locals()))


class _FrameworkBaseEstimator(MMLBaseEstimator):
    """An estimator that brings a framework's packages for the version asked for."""

    FRAMEWORK_NAME = None
    DEFAULT_VERSION = None
    _versions = ()

    def __init__(self, source_directory, *, compute_target=None, vm_size=None, vm_priority=None, entry_script=None,
                 script_params=None, node_count=1, process_count_per_node=1, distributed_backend=None,
                 distributed_training=None, use_gpu=False, use_docker=True, custom_docker_base_image=None,
                 custom_docker_image=None, image_registry_details=None, user_managed=False, conda_packages=None,
                 pip_packages=None, conda_dependencies_file_path=None, pip_requirements_file_path=None,
                 conda_dependencies_file=None, pip_requirements_file=None, environment_variables=None,
                 environment_definition=None, inputs=None, source_directory_data_store=None, shm_size=None,
                 resume_from=None, max_run_duration_seconds=None, framework_name=None, framework_version=None,
                 _enable_optimized_mode=False, _disable_validation=False, _show_lint_warnings=False,
                 _show_package_warnings=False):
        self._build(given_to(locals()))

    @property
    def framework_version(self):
        return self._framework_version

    @classmethod
    def get_supported_versions(cls):
        """The versions that the original lists. Others that are well formed are tried by the service."""
        return list(cls._versions)

    def _build(self, given):
        self._names_version = given.get("framework_version") is not None
        self._framework_version = checked_version(type(self), given.pop("framework_version", None))
        self._added = self._framework_packages(self._framework_version, bool(given.get("use_gpu")))
        self._configure(given, self._added)

    def _framework_packages(self, version, use_gpu):
        return ()

    def _to_submission(self, workspace, **overrides):
        made = super(_FrameworkBaseEstimator, self)._to_submission(workspace, **overrides)
        if made["definition"]["runyard"]["estimator"]["framework"]:
            _without(made["definition"]["environment"]["python"].get("condaDependencies"), self._added)
        return made

    def _estimator_facts(self):
        alone = names_all_packages(self._settings)
        facts = {"framework": None if alone else self.FRAMEWORK_NAME, "version": self._framework_version,
                 "use_gpu": bool(self._settings.get("use_gpu"))}
        if alone:
            facts.update(unpinned=self.FRAMEWORK_NAME, version_is_default=not self._names_version)
        return facts


class MMLBaseEstimatorRunConfig(RunConfiguration):
    """A run configuration made from the arguments of an estimator."""

    def __init__(self, compute_target, vm_size=None, vm_priority=None, entry_script=None, script_params=None,
                 node_count=None, process_count_per_node=None, distributed_backend=None, use_gpu=None, use_docker=None,
                 custom_docker_base_image=None, custom_docker_image=None, image_registry_details=None,
                 user_managed=False, conda_packages=None, pip_packages=None, environment_definition=None, inputs=None,
                 source_directory_data_store=None, shm_size=None):
        given = given_to(locals())
        super(MMLBaseEstimatorRunConfig, self).__init__()
        named = {name: value for name, value in given.items() if value is not None}
        self.__dict__.update(Estimator(".", **named).run_config.__dict__)


def given_to(scope):
    """The arguments of a constructor, out of its locals()."""
    return {name: value for name, value in scope.items() if name not in ("self", "__class__")
            and not name.startswith("_")}


def checked_version(estimator, version):
    """The version as text, the estimator's default for None; TrainingException for what cannot be one."""
    import re
    if version is None:
        return estimator.DEFAULT_VERSION
    if not isinstance(version, str) or not re.match(r"^\d+(\.\d+){1,2}\Z", version):
        raise TrainingException("framework_version must look like %r, got %r. %s lists: %s." % (
            estimator.DEFAULT_VERSION, version, estimator.__name__, ", ".join(estimator.get_supported_versions())))
    return version


def _bound(settings):
    from azureml._run_definition import resume_arguments
    inputs = Inputs()
    inputs.add_all(settings.get("inputs"))
    arguments = from_params(settings.get("script_params"), inputs)
    if settings.get("resume_from") is not None:
        arguments += resume_arguments(settings["resume_from"], inputs)
    return inputs, arguments


def _set_target(run_config, settings):
    target = settings.get("compute_target")
    if target is not None:
        if getattr(target, "type", None) == "HDInsight" or type(target).__name__ == "HDInsightCompute":
            raise ComputeTargetException("An estimator cannot run on HDInsight.")
        run_config.target = target
        return
    if not settings.get("vm_size"):
        raise TrainingException("compute_target is missing: give a compute target or its name, 'local', or a vm_size "
                                "for a cluster of this run alone.")
    run_config.target = _ONE_OFF
    run_config.amlcompute.vm_size = settings["vm_size"]
    run_config.amlcompute.vm_priority = settings.get("vm_priority")


def _check_target(run_config):
    run_config.amlcompute._cluster_max_node_count = run_config.node_count
    if run_config.node_count > 1 and run_config.target == "local":
        raise TrainingException("node_count=%d needs a cluster as compute_target, got 'local'." % (
            run_config.node_count,))


def _without(conda, packages):
    for entry in (conda or {}).get("dependencies") or []:
        if isinstance(entry, dict) and entry.get("pip"):
            entry["pip"] = [line for line in entry["pip"] if line not in packages]
