"""The environment of an estimator: packages, files, image and variables that its arguments name."""
import os

from azureml._requirements import package_name, read_requirements
from azureml.core.conda_dependencies import CondaDependencies
from azureml.core.container_registry import ContainerRegistry
from azureml.core.environment import Environment, checked_environment
from azureml.exceptions import TrainingException, UserErrorException

CPU_IMAGE = "mcr.microsoft.com/azureml/base:intelmpi2018.3-ubuntu16.04"
GPU_IMAGE = "mcr.microsoft.com/azureml/base-gpu:intelmpi2018.3-cuda10.0-cudnn7-ubuntu16.04"

_PYTHON = "3.6.2"
_PACKAGES = ("pip_packages", "conda_packages", "pip_requirements_file", "conda_dependencies_file")
_EXCLUDED_BY_DEFINITION = _PACKAGES + ("use_gpu", "custom_docker_image", "image_registry_details", "user_managed",
                                       "shm_size", "environment_variables")
_OLD_NAMES = {"custom_docker_base_image": "custom_docker_image",
              "conda_dependencies_file_path": "conda_dependencies_file",
              "pip_requirements_file_path": "pip_requirements_file"}


def with_new_names(settings):
    """The settings with each deprecated name moved to its present one; TrainingException where both are given."""
    settings = dict(settings)
    for old, new in _OLD_NAMES.items():
        value = settings.pop(old, None)
        if value is None:
            continue
        if settings.get(new) is not None:
            raise TrainingException("%s is the old name of %s: give one of them." % (old, new))
        settings[new] = value
    return settings


def check_environment_settings(settings):
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


def build_environment(settings, source_directory, framework_packages):
    """The environment of these settings, with the framework's packages unless the user names all packages."""
    if settings.get("environment_definition") is not None:
        return checked_environment("environment_definition", settings["environment_definition"])
    made = Environment(None)
    made.python.user_managed_dependencies = bool(settings.get("user_managed"))
    made.python.conda_dependencies = _dependencies(settings, source_directory, framework_packages)
    if settings.get("environment_variables"):
        made.environment_variables = dict(settings["environment_variables"])
    docker = made.docker
    docker.enabled = bool(settings.get("use_docker", True))
    docker.base_image = settings.get("custom_docker_image") or (GPU_IMAGE if settings.get("use_gpu") else CPU_IMAGE)
    if settings.get("image_registry_details") is not None:
        docker.base_image_registry = settings["image_registry_details"]
    docker.shm_size = settings.get("shm_size")
    return made


def names_all_packages(settings):
    """Whether the user's own environment stands alone, without the packages of the framework."""
    return bool(settings.get("environment_definition") is not None or settings.get("conda_dependencies_file")
                or settings.get("user_managed"))


def _dependencies(settings, source_directory, framework_packages):
    if settings.get("conda_dependencies_file"):
        return CondaDependencies(_inside("conda_dependencies_file", settings, source_directory))
    made = CondaDependencies.create(python_version=_PYTHON)
    if not names_all_packages(settings):
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
