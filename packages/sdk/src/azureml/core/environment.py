import os

from azureml._elements import Element
from azureml._requirements import read_requirements
from azureml._version import VERSION as SDKVERSION
from azureml.core._environment_sections import (  # noqa: F401
    DEFAULT_CPU_IMAGE, DEFAULT_GPU_IMAGE, DockerBuildContext, DockerEnvironment, DockerImagePlatform, DockerSection,
    PythonEnvironment, PythonSection, RCranPackage, RGitHubPackage, RSection, SparkEnvironment, SparkPackage,
    SparkSection)
from azureml.core.conda_dependencies import PYTHON_DEFAULT_VERSION, CondaDependencies  # noqa: F401
from azureml.core.container_registry import ContainerRegistry  # noqa: F401
from azureml.core.databricks import DatabricksSection
from azureml.exceptions import AzureMLException, UserErrorException  # noqa: F401

_DEFINITION_FILE = "azureml_environment.json"
_CONDA_FILE = "conda_dependencies.yml"
_DOCKERFILE = "BaseDockerfile"


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
        import subprocess
        command = ["conda", "env", "export", "-n", conda_environment_name, "--no-builds"]
        try:
            exported = subprocess.check_output(command).decode("utf-8")
        except (OSError, subprocess.CalledProcessError) as error:
            print("Could not export the conda environment %r: %s" % (conda_environment_name, error))
            return None
        from azureml._yaml import loads
        made = Environment(name)
        made.python.conda_dependencies = CondaDependencies(_underlying_structure=loads(exported))
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
        """The stored environment, its newest version where none is named; a curated one has a single version."""
        from azureml._assets import get_asset
        from azureml.core._curated import curated_body
        if curated_body(name) is not None:
            return Environment._curated(name)
        return Environment._stored(get_asset(workspace, "environments", name, version))

    @staticmethod
    def list(workspace):
        """Name to environment, the newest version of each, the curated ones first."""
        from azureml._assets import list_assets
        from azureml.core._curated import curated_names
        listed = {name: Environment._curated(name) for name in curated_names()}
        listed.update((found["name"], Environment._stored(found))
                      for found in list_assets(workspace, "environments", latest=True))
        return listed

    def register(self, workspace):
        """Store it, without a registry password, as the next version of its name; unchanged, it keeps its version."""
        from azureml._assets import create_asset
        if not self.name:
            raise UserErrorException("An environment needs a name before it can be registered.")
        body = dict(self._to_object(), version=None, assetId=None)
        body["docker"]["baseImageRegistry"]["password"] = None
        return Environment._stored(create_asset(workspace, "environments", self.name, body))

    @staticmethod
    def label(workspace, name, version, labels):
        from azureml._assets import patch_asset
        patch_asset(workspace, "environments", name, version, tags={"label:%s" % label: "" for label in labels})

    def clone(self, new_name):
        if not new_name or not isinstance(new_name, str):
            raise UserErrorException("new_name must be the name of the copy, got %r." % (new_name,))
        made = Environment._from_object(self._to_object())
        made.name, made.version, made.asset_id = new_name, None, None
        return made

    def save_to_directory(self, path, overwrite=False):
        """Write azureml_environment.json, and the conda file and Dockerfile where there is one."""
        import json
        os.makedirs(path, exist_ok=overwrite)
        written = self._to_object()
        conda = self.python.conda_dependencies
        if conda is not None:
            conda.save(os.path.join(path, _CONDA_FILE))
        if self.docker.base_dockerfile:
            with open(os.path.join(path, _DOCKERFILE), "w", encoding="utf-8") as file:
                file.write(self.docker.base_dockerfile)
        with open(os.path.join(path, _DEFINITION_FILE), "w", encoding="utf-8") as file:
            json.dump(written, file, indent=4)

    @staticmethod
    def load_from_directory(path):
        """The environment that save_to_directory wrote; edits of the conda file and Dockerfile beside it count."""
        import json
        definition = os.path.join(path, _DEFINITION_FILE)
        if not os.path.isfile(definition):
            raise UserErrorException("There is no %s in %r." % (_DEFINITION_FILE, str(path)))
        with open(definition, encoding="utf-8") as file:
            made = Environment._from_object(json.load(file))
        if os.path.isfile(os.path.join(path, _CONDA_FILE)):
            made.python.conda_dependencies = CondaDependencies(os.path.join(path, _CONDA_FILE))
        if os.path.isfile(os.path.join(path, _DOCKERFILE)):
            made.docker.base_dockerfile = os.path.join(path, _DOCKERFILE)
        return made

    @staticmethod
    def add_private_pip_wheel(workspace, file_path, exist_ok=False):
        """Put a wheel into the default datastore; the address returned can stand in a list of pip packages."""
        if not os.path.isfile(file_path):
            raise UserErrorException("file_path names no file: %r." % str(file_path))
        if not exist_ok and _wheel_is_stored(workspace, file_path):
            raise UserErrorException("The wheel %r is stored already; pass exist_ok=True to replace it." % file_path)
        workspace.get_default_datastore().upload_files(
            [file_path], target_path="wheels", overwrite=exist_ok, show_progress=False)
        return "file://" + os.path.abspath(file_path)

    def build(self, workspace, image_build_compute=None):
        """Environments are built when a run needs them; this answers at once."""
        return ImageBuildDetails(None, None)

    def build_local(self, workspace, platform=None, **kwargs):
        return ImageBuildDetails(None, None)

    def get_image_details(self, workspace):
        return DockerImageDetails(imageExistsInRegistry=False, pythonEnvironment={
            "interpreterPath": self.python.interpreter_path, "condaEnvironmentPath": None})

    @classmethod
    def _blank(cls):
        return cls(None, _skip_defaults=True)

    @classmethod
    def _curated(cls, name):
        from azureml.core._curated import VERSION, curated_body
        return cls._stored({"name": name, "version": VERSION, "id": None, "body": curated_body(name)})

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


class DockerImageDetails(dict):
    """The facts of an environment's image; here an environment is a folder, and there is none."""

    @property
    def image_exist(self):
        return self.get("imageExistsInRegistry", False)

    @property
    def registry(self):
        return self.get("dockerImage", {}).get("registry", {}).get("address")

    @property
    def repository(self):
        return self.get("dockerImage", {}).get("name")

    @property
    def image(self):
        return "/".join(part for part in (self.registry, self.repository) if part) or None

    @property
    def dockerfile(self):
        return self.get("ingredients", {}).get("dockerfile")

    @property
    def interpreter_path(self):
        return self.get("pythonEnvironment", {}).get("interpreterPath")

    @property
    def environment_path(self):
        return self.get("pythonEnvironment", {}).get("condaEnvironmentPath")


class ImageBuildDetails(object):
    """What Environment.build returns. There is nothing to wait for."""

    def __init__(self, environment_client, location):
        self.environment_client = environment_client
        self.log_url = location

    @property
    def status(self):
        return "Succeeded"

    def get_log(self):
        return ""

    def wait_for_completion(self, show_output=True):
        if show_output:
            print("Nothing to build ahead: the environment is made, or found in the cache, when a run needs it.")
        return self


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


def _wheel_is_stored(workspace, file_path):
    return ("wheels/" + os.path.basename(file_path)) in workspace.get_default_datastore()._file_names("wheels")
