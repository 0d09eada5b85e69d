import os

from azureml._elements import Element
from azureml._requirements import read_requirements
from azureml._version import VERSION as SDKVERSION
from azureml.core._environment_sections import (  # noqa: F401
    DEFAULT_CPU_IMAGE, DEFAULT_GPU_IMAGE, DockerBuildContext, DockerEnvironment, DockerImagePlatform, DockerSection,
    PythonEnvironment, PythonSection, RCranPackage, RGitHubPackage, RSection, SparkEnvironment, SparkPackage,
    SparkSection)
from azureml.core._image_building import (  # noqa: F401
    DockerImageDetails, ImageBuildDetails, image_details, start_build)
from azureml.core._private_wheels import kept_wheel
from azureml.core.conda_dependencies import PYTHON_DEFAULT_VERSION, CondaDependencies  # noqa: F401
from azureml.core.container_registry import ContainerRegistry  # noqa: F401
from azureml.core.databricks import DatabricksSection
from azureml.exceptions import AzureMLException, UserErrorException  # noqa: F401

_AUTOSAVED = "Autosave_"
"""How the names begin that the service gives to environments of runs that are not registered."""


class Environment(Element):
    """What a script needs around it: interpreter, packages, variables, image. `register` stores a version of it."""

    _fields = {"name": None, "version": None, "asset_id": None, "_environment_variables": None, "python": PythonSection,
               "docker": DockerSection, "spark": SparkSection, "r": RSection, "databricks": DatabricksSection,
               "inferencing_stack_version": None}

    def __init__(self, name, **kwargs):
        skip_defaults = kwargs.pop("_skip_defaults", False)
        if kwargs:
            raise TypeError("Environment got an unexpected argument %r." % sorted(kwargs)[0])
        self.name = name
        self.version = None
        self.asset_id = None
        self.python = PythonSection(_skip_defaults=skip_defaults)
        self._environment_variables = {} if skip_defaults else {"EXAMPLE_ENV_VAR": "EXAMPLE_VALUE"}
        self.docker = DockerSection(_skip_defaults=skip_defaults)
        self.spark = SparkSection(_skip_defaults=skip_defaults)
        self.databricks = DatabricksSection(_skip_defaults=skip_defaults)
        self.r = None
        self.inferencing_stack_version = None

    @property
    def environment_variables(self):
        return self._environment_variables

    @environment_variables.setter
    def environment_variables(self, variables):
        self._environment_variables = variables

    @staticmethod
    def from_conda_specification(name, file_path):
        made = Environment(name)
        made.python.conda_dependencies = CondaDependencies(conda_dependencies_file_path=file_path)
        return made

    @staticmethod
    def from_pip_requirements(name, file_path, pip_version=None):
        made = Environment(name)
        conda = CondaDependencies()
        if pip_version:
            conda.add_conda_package("pip=%s" % pip_version)
        conda.set_pip_requirements(read_requirements(file_path))
        made.python.conda_dependencies = conda
        return made

    @staticmethod
    def from_existing_conda_environment(name, conda_environment_name):
        """An environment like a conda one of this machine; None, with a line printed, where conda does not know it."""
        from azureml.core._existing_conda import exported
        specification = exported(conda_environment_name)
        if specification is None:
            return None
        made = Environment(name)
        made.python.conda_dependencies = CondaDependencies(_underlying_structure=specification)
        return made

    @staticmethod
    def from_docker_image(name, image, container_registry=None, conda_specification=None, pip_requirements=None):
        made = _with_packages(name, conda_specification, pip_requirements)
        made.docker.base_image = image
        if container_registry is not None:
            made.docker.base_image_registry = container_registry
        return made

    @staticmethod
    def from_dockerfile(name, dockerfile, conda_specification=None, pip_requirements=None):
        made = _with_packages(name, conda_specification, pip_requirements)
        made.docker.base_dockerfile = dockerfile
        return made

    @staticmethod
    def from_docker_build_context(name, docker_build_context):
        made = Environment(name)
        made.docker.build_context = docker_build_context
        made.python.user_managed_dependencies = True
        return made

    @staticmethod
    def get(workspace, name, version=None, label=None):
        """The stored environment: of that version or label, else the newest. A curated one is the same in each."""
        from azureml._assets import get_asset
        from azureml.core._curated import is_curated_name
        if version is not None and label is not None:
            raise UserErrorException("Give version or label, not both.")
        if is_curated_name(name):
            return Environment._curated(name, version)
        if str(version).startswith(_AUTOSAVED):
            return Environment._stored(dict(get_asset(workspace, "environments", version), name=name, version=version))
        return Environment._stored(get_asset(workspace, "environments", name, version, label=label))

    @staticmethod
    def list(workspace):
        """Name to environment, the newest version of each, the curated ones first. Those that were kept with a run
        alone are not among them."""
        from azureml._assets import list_assets
        from azureml.core._curated import curated_names
        listed = {name: Environment._curated(name) for name in curated_names()}
        listed.update((found["name"], Environment._stored(found))
                      for found in list_assets(workspace, "environments", latest=True)
                      if not found["name"].startswith(_AUTOSAVED))
        return listed

    def register(self, workspace):
        """Store it as the next version of its name; unchanged, it keeps its version. Credentials of a registry are
        kept as secrets of the workspace, not with the environment."""
        from azureml._assets import create_asset
        from azureml._environment_object import environment_object
        if not self.name:
            raise UserErrorException("An environment needs a name before it can be registered.")
        body = dict(environment_object(self, "."), version=None)
        return Environment._stored(create_asset(workspace, "environments", self.name, body))

    @staticmethod
    def label(workspace, name, version, labels):
        """Have these labels mean that version: Environment.get(..., label=...) finds it by each of them."""
        from azureml._assets import label_asset
        names = [labels] if isinstance(labels, str) else list(labels)
        bad = [one for one in names if not isinstance(one, str) or not one.strip()]
        if bad or not names:
            raise UserErrorException("labels must be a list of names, got %r." % (labels,))
        label_asset(workspace, "environments", name, version, names)

    def clone(self, new_name):
        if not new_name or not isinstance(new_name, str):
            raise UserErrorException("new_name must be the name of the copy, got %r." % (new_name,))
        made = Environment._from_object(self._to_object())
        made.name, made.version, made.asset_id = new_name, None, None
        return made

    def save_to_directory(self, path, overwrite=False):
        """Write azureml_environment.json, and the conda file and Dockerfile where there is one."""
        from azureml.core._environment_files import save
        save(self, path, overwrite)

    @staticmethod
    def load_from_directory(path):
        """The environment that save_to_directory wrote; edits of the conda file and Dockerfile beside it count."""
        from azureml.core._environment_files import load
        return load(Environment, path)

    @staticmethod
    def add_private_pip_wheel(workspace, file_path, exist_ok=False):
        """Keep a wheel in the default datastore; the address returned can stand in a list of pip packages.

        It names this very content: with another wheel of the same name comes another address. Runs on this machine, and
        on those that share its RUNYARD_HOME, can install it.
        """
        if not os.path.isfile(file_path):
            raise UserErrorException("file_path names no file: %r." % str(file_path))
        if not str(file_path).endswith(".whl"):
            raise UserErrorException("file_path must be a wheel, a file that ends in .whl; got %r." % str(file_path))
        store, place = workspace.get_default_datastore(), "wheels/" + os.path.basename(file_path)
        if not exist_ok and place in [file["path"] for file in store._files("wheels")]:
            raise UserErrorException("The wheel %r is stored already; pass exist_ok=True to replace it." % (
                os.path.basename(file_path),))
        store.upload_files([file_path], target_path="wheels", overwrite=exist_ok, show_progress=False)
        return kept_wheel(file_path)

    def build(self, workspace, image_build_compute=None):
        """Have the environment built now, so that no run waits for it; returns at once."""
        return start_build(self, workspace)

    def build_local(self, workspace, platform=None, **kwargs):
        """Build it and print how that goes; returns what was printed. An error says why it cannot be built.

        useDocker and pushImageToWorkspaceAcr are accepted: whether there is an image, the environment itself says, and
        it stays on this machine.
        """
        unknown = sorted(set(kwargs) - {"useDocker", "pushImageToWorkspaceAcr"})
        if unknown:
            raise TypeError("build_local got an unexpected argument %r." % unknown[0])
        return start_build(self, workspace).wait_for_completion(show_output=True).get_log()

    def get_image_details(self, workspace):
        """The facts of the image that the registered environment of this name and version lies in."""
        if str(self.version).startswith(_AUTOSAVED):
            return image_details(workspace, self.version, None)
        return image_details(workspace, self.name, self.version)

    @classmethod
    def _blank(cls):
        return cls(None, _skip_defaults=True)

    @classmethod
    def _curated(cls, name, version=None):
        from azureml.core._curated import VERSION, curated_body
        return cls._stored({"name": name, "version": version or VERSION, "id": None, "body": curated_body(name)})

    @classmethod
    def _stored(cls, asset):
        made = cls._from_object(asset["body"])
        made.name, made.version, made.asset_id = asset["name"], str(asset["version"]), asset["id"]
        return made


class EnvironmentReference(Element):
    """The name and version of a stored environment."""

    _fields = {"name": None, "version": None}

    def __init__(self, name, version=None):
        self.name = name
        self.version = version

    def get_environment(self, workspace):
        return Environment.get(workspace, self.name, self.version)

    @classmethod
    def _blank(cls):
        return cls(None)


def checked_environment(argument, environment):
    """The environment, where it is one; UserErrorException with the way to one for its name or anything else."""
    if isinstance(environment, str):
        raise UserErrorException("%s must be an Environment, got the name %r. Get it with Environment.get(workspace, "
                                 "%r)." % (argument, environment, environment))
    if not isinstance(environment, Environment):
        raise UserErrorException("%s must be an Environment, got %r." % (argument, environment))
    return environment


def _with_packages(name, conda_specification, pip_requirements):
    if conda_specification and pip_requirements:
        raise UserErrorException("Give conda_specification or pip_requirements, not both.")
    if conda_specification:
        return Environment.from_conda_specification(name, conda_specification)
    if pip_requirements:
        return Environment.from_pip_requirements(name, pip_requirements)
    made = Environment(name)
    made.python.user_managed_dependencies = True
    return made
