"""Estimators: a script, its parameters and its environment in one object."""

import os

from azureml._requirements import package_name, read_requirements
from azureml._run_definition import Inputs, from_params, resume_arguments, submission
from azureml.core.conda_dependencies import CondaDependencies
from azureml.core.container_registry import ContainerRegistry
from azureml.core.environment import Environment, checked_environment
from azureml.core.runconfig import RunConfiguration
from azureml.exceptions import (
    ComputeTargetException, ExperimentExecutionException, TrainingException, UserErrorException)
from azureml.train._distributed_training import Gloo, Mpi, Nccl, ParameterServer, distribute

__all__ = ["Estimator", "Gloo", "MMLBaseEstimator", "MMLBaseEstimatorRunConfig", "Mpi", "Nccl", "ParameterServer",
           "_FrameworkBaseEstimator"]

_ONE_OFF = "amlcompute"
_MAY_CHANGE_AT_SUBMIT = ("inputs", "script_params", "source_directory_data_store")
_CPU_IMAGE = "mcr.microsoft.com/azureml/base:intelmpi2018.3-ubuntu16.04"
_GPU_IMAGE = "mcr.microsoft.com/azureml/base-gpu:intelmpi2018.3-cuda10.0-cudnn7-ubuntu16.04"

_PYTHON = "3.6.2"
_PACKAGES = ("pip_packages", "conda_packages", "pip_requirements_file", "conda_dependencies_file")
_EXCLUDED_BY_DEFINITION = _PACKAGES + ("use_gpu", "custom_docker_image", "image_registry_details", "user_managed",
                                       "shm_size", "environment_variables")
_OLD_NAMES = {"custom_docker_base_image": "custom_docker_image",
              "conda_dependencies_file_path": "conda_dependencies_file",
              "pip_requirements_file_path": "pip_requirements_file"}


class MMLBaseEstimator(object):
    """Base of estimators. The constructor raises for invalid settings, submit for a missing script."""

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
        """Check the constructor's arguments and build the run configuration."""
        settings = _with_new_names(given)
        self._source_directory = settings.pop("source_directory") or "."
        for name in ("node_count", "process_count_per_node"):
            settings.setdefault(name, 1)
        self._settings = settings
        _check_environment_settings(settings)
        self._run_config = RunConfiguration(script=settings.get("entry_script"))
        _set_target(self._run_config, settings)
        distribute(self._estimator_name, self._run_config, settings)
        _check_target(self._run_config)
        self._run_config.environment = _build_environment(settings, self._source_directory, framework_packages)
        self._run_config.max_run_duration_seconds = settings.get("max_run_duration_seconds")
        self._run_config.source_directory_data_store = getattr(
            settings.get("source_directory_data_store"), "name", settings.get("source_directory_data_store"))
        self._inputs, self._run_config.arguments = _bound(settings)

    def _to_submission(self, workspace, **overrides):
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
    """Estimator for any framework: name its packages yourself."""

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
    """Estimator that adds the packages of a framework version."""

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
        """Versions that the original lists. Other well-formed versions are accepted."""
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
        alone = _names_all_packages(self._settings)
        facts = {"framework": None if alone else self.FRAMEWORK_NAME, "version": self._framework_version,
                 "use_gpu": bool(self._settings.get("use_gpu"))}
        if alone:
            facts.update(unpinned=self.FRAMEWORK_NAME, version_is_default=not self._names_version)
        return facts


class MMLBaseEstimatorRunConfig(RunConfiguration):
    """Run configuration made from the arguments of an estimator."""

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
    """Arguments of a constructor, from its locals()."""
    return {name: value for name, value in scope.items() if name not in ("self", "__class__")
            and not name.startswith("_")}


def checked_version(estimator, version):
    """Version as text, by default the estimator's. Raises TrainingException for an invalid one."""
    import re
    if version is None:
        return estimator.DEFAULT_VERSION
    if not isinstance(version, str) or not re.match(r"^\d+(\.\d+){1,2}\Z", version):
        raise TrainingException("framework_version must look like %r, got %r. %s lists: %s." % (
            estimator.DEFAULT_VERSION, version, estimator.__name__, ", ".join(estimator.get_supported_versions())))
    return version


def _bound(settings):
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


def _with_new_names(settings):
    """Settings with deprecated names replaced. Raises TrainingException where both are given."""
    settings = dict(settings)
    for old, new in _OLD_NAMES.items():
        value = settings.pop(old, None)
        if value is None:
            continue
        if settings.get(new) is not None:
            raise TrainingException("%s is the old name of %s: give one of them." % (old, new))
        settings[new] = value
    return settings


def _check_environment_settings(settings):
    definition = settings.get("environment_definition")
    clashing = [name for name in _EXCLUDED_BY_DEFINITION if settings.get(name)]
    if definition is not None and clashing:
        raise TrainingException("environment_definition says the whole environment, so it excludes %s." % (
            ", ".join(clashing)))
    packages = [name for name in _PACKAGES[:3] if settings.get(name)]
    if settings.get("conda_dependencies_file") and packages:
        raise TrainingException("conda_dependencies_file names all packages, so it excludes %s." % ", ".join(packages))
    if settings.get("use_docker") is False and (
            settings.get("custom_docker_image") or settings.get("image_registry_details")):
        raise TrainingException("use_docker=False excludes custom_docker_image and image_registry_details.")
    registry = settings.get("image_registry_details")
    if registry is not None and not isinstance(registry, ContainerRegistry):
        raise TrainingException("image_registry_details must be a ContainerRegistry with address, username and "
                                "password, got %s." % type(registry).__name__)
    packages = [name for name in _PACKAGES if settings.get(name)]
    if settings.get("user_managed") and packages:
        raise UserErrorException("user_managed=True means that the packages are there already, so it excludes %s." % (
            ", ".join(packages)))


def _build_environment(settings, source_directory, framework_packages):
    """Environment of these settings, with the framework's packages unless the user names all packages."""
    if settings.get("environment_definition") is not None:
        return checked_environment("environment_definition", settings["environment_definition"])
    made = Environment(None)
    made.python.user_managed_dependencies = bool(settings.get("user_managed"))
    made.python.conda_dependencies = _dependencies(settings, source_directory, framework_packages)
    if settings.get("environment_variables"):
        made.environment_variables = dict(settings["environment_variables"])
    docker = made.docker
    docker.enabled = bool(settings.get("use_docker", True))
    docker.base_image = settings.get("custom_docker_image") or (_GPU_IMAGE if settings.get("use_gpu") else _CPU_IMAGE)
    if settings.get("image_registry_details") is not None:
        docker.base_image_registry = settings["image_registry_details"]
    docker.shm_size = settings.get("shm_size")
    return made


def _names_all_packages(settings):
    """Whether the user's environment is complete, without packages of the framework."""
    return bool(settings.get("environment_definition") is not None or settings.get("conda_dependencies_file")
                or settings.get("user_managed"))


def _dependencies(settings, source_directory, framework_packages):
    if settings.get("conda_dependencies_file"):
        return CondaDependencies(_inside("conda_dependencies_file", settings, source_directory))
    made = CondaDependencies.create(python_version=_PYTHON)
    if not _names_all_packages(settings):
        for package in framework_packages:
            made.add_pip_package(package)
    for package in settings.get("conda_packages") or []:
        made.add_conda_package(package)
    for package in _pip_packages(settings, source_directory):
        _warn_if_replacing(package, framework_packages)
        if package.startswith("-"):
            made.set_pip_option(package)
        else:
            made.add_pip_package(package)
    return made


def _pip_packages(settings, source_directory):
    named = list(settings.get("pip_packages") or [])
    if settings.get("pip_requirements_file"):
        named = read_requirements(_inside("pip_requirements_file", settings, source_directory)) + named
    return named


def _inside(argument, settings, source_directory):
    path = os.path.join(source_directory, settings[argument])
    if not os.path.isfile(path):
        raise UserErrorException("%s: there is no file %r in source_directory %r." % (
            argument, str(settings[argument]), str(source_directory)))
    return path


def _warn_if_replacing(package, framework_packages):
    name = package_name(package)
    replaced = [one for one in framework_packages if package_name(one) == name and one != package]
    if name and replaced:
        import warnings
        warnings.warn("Your package %r replaces %r of the framework." % (package, replaced[0]), stacklevel=5)
