import json
import os

from azureml._elements import Element, without_secrets
from azureml._requirements import expanded, read_requirements
from azureml._service import translated
from azureml._version import VERSION as SDKVERSION  # noqa: F401
from azureml._yaml import YamlError, loads
from azureml.core._environment_sections import (  # noqa: F401
    DEFAULT_CPU_IMAGE, DEFAULT_GPU_IMAGE, DockerBuildContext, DockerEnvironment, DockerImagePlatform, DockerSection,
    PythonEnvironment, PythonSection, RCranPackage, RGitHubPackage, RSection, SparkEnvironment, SparkPackage,
    SparkSection)
from azureml.core.conda_dependencies import PYTHON_DEFAULT_VERSION, CondaDependencies  # noqa: F401
from azureml.core.container_registry import ContainerRegistry  # noqa: F401
from azureml.core.databricks import DatabricksSection
from azureml.exceptions import AzureMLException, UserErrorException  # noqa: F401
from runyard_sdk import errors
from runyard_sdk.submitter import submitter_facts

_AUTOSAVED = "Autosave_"
"""Prefix of the names that the service gives to unregistered environments of runs."""
_BUILD_ENDED = ("Succeeded", "Failed")
_POLL_SECONDS_WITH_OUTPUT = 0.5
_POLL_SECONDS = 20
_DEFINITION_FILE = "azureml_environment.json"
_CONDA_FILE = "conda_dependencies.yml"
_DOCKERFILE = "BaseDockerfile"
_CONDA_VARIABLES = ("CONDA_EXE", "MAMBA_EXE")
_CONDA_PROGRAMS = ("conda", "mamba", "micromamba")


class Environment(Element):
    """Interpreter, packages, variables and image of a script. `register` stores a version."""

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
        """Environment with the packages of a conda environment of this machine; None, with a printed reason, if conda
        does not know it."""
        specification = _exported_conda_environment(conda_environment_name)
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
        """Return the stored environment with that version or label, else the newest. Curated ones are the same in every
        workspace."""
        from azureml._assets import get_asset
        from azureml.core._curated_environments import is_curated_name
        if version is not None and label is not None:
            raise UserErrorException("Give version or label, not both.")
        if is_curated_name(name):
            return Environment._curated(name, version)
        if str(version).startswith(_AUTOSAVED):
            return Environment._stored(dict(get_asset(workspace, "environments", version), name=name, version=version))
        return Environment._stored(get_asset(workspace, "environments", name, version, label=label))

    @staticmethod
    def list(workspace):
        """Environments by name, newest version of each, curated ones first. Leaves out those that were only stored with
        a run."""
        from azureml._assets import list_assets
        from azureml.core._curated_environments import curated_names
        listed = {name: Environment._curated(name) for name in curated_names()}
        listed.update((found["name"], Environment._stored(found))
                      for found in list_assets(workspace, "environments", latest=True)
                      if not found["name"].startswith(_AUTOSAVED))
        return listed

    def register(self, workspace):
        """Store as the next version of its name; if unchanged, the version stays. Registry credentials are stored as
        secrets of the workspace, not in the environment."""
        from azureml._assets import create_asset
        if not self.name:
            raise UserErrorException("An environment needs a name before it can be registered.")
        body = dict(environment_object(self, "."), version=None)
        return Environment._stored(create_asset(workspace, "environments", self.name, body))

    @staticmethod
    def label(workspace, name, version, labels):
        """Point these labels to that version, for Environment.get(..., label=...)."""
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
        _save_folder(self, path, overwrite)

    @staticmethod
    def load_from_directory(path):
        """Read what save_to_directory wrote; edits of the conda file and Dockerfile in the folder take effect."""
        return _load_folder(Environment, path)

    @staticmethod
    def add_private_pip_wheel(workspace, file_path, exist_ok=False):
        """Copy a wheel to the default datastore; return its URL for a list of pip packages.

        The URL is content-addressed: another wheel of the same name gets another URL. Runs on this machine, and on
        machines that share its RUNYARD_HOME, can install it.
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
        return _kept_wheel(file_path)

    def build(self, workspace, image_build_compute=None):
        """Start building the environment, so that no run waits for it; returns at once."""
        return _start_build(self, workspace)

    def build_local(self, workspace, platform=None, **kwargs):
        """Build, print progress and return what was printed. Raises with the reason when it fails.

        useDocker and pushImageToWorkspaceAcr have no effect: the environment says whether there is an image, and the
        image stays on this machine.
        """
        unknown = sorted(set(kwargs) - {"useDocker", "pushImageToWorkspaceAcr"})
        if unknown:
            raise TypeError("build_local got an unexpected argument %r." % unknown[0])
        return _start_build(self, workspace).wait_for_completion(show_output=True).get_log()

    def get_image_details(self, workspace):
        """Return facts of the image of the registered environment with this name and version."""
        if str(self.version).startswith(_AUTOSAVED):
            return _image_details(workspace, self.version, None)
        return _image_details(workspace, self.name, self.version)

    @classmethod
    def _blank(cls):
        return cls(None, _skip_defaults=True)

    @classmethod
    def _curated(cls, name, version=None):
        from azureml.core._curated_environments import VERSION, curated_body
        return cls._stored({"name": name, "version": version or VERSION, "id": None, "body": curated_body(name)})

    @classmethod
    def _stored(cls, asset):
        made = cls._from_object(asset["body"])
        made.name, made.version, made.asset_id = asset["name"], str(asset["version"]), asset["id"]
        return made


class EnvironmentReference(Element):
    """Name and version of a stored environment."""

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
    """Return the environment. Raises UserErrorException, with a hint, for a name or anything else."""
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


def environment_object(environment, folder, variables=None):
    """Return the v1 object with requirements files of its pip list, relative to `folder`, expanded.

    It holds the registry credentials; the service stores and shows the environment without them.
    """
    written = dict(environment._to_object(), assetId=None)  # only the content is sent: name and version identify it
    given = dict(environment.environment_variables or {}, **(variables or {}))
    written["environmentVariables"] = {str(name): str(value) for name, value in given.items()}
    for package in (written["python"].get("condaDependencies") or {}).get("dependencies") or []:
        if isinstance(package, dict) and package.get("pip"):
            package["pip"] = expanded([str(line) for line in package["pip"]], folder)
    for package in (written.get("r") or {}).get("githubPackages") or []:
        package["authToken"] = None
    return written


def _start_build(environment, workspace):
    """Ask the service to build; returns at once. An environment that is built already has status Succeeded."""
    record = workspace._client.post(workspace._path("builds"), {
        "environment": environment_object(environment, "."), "submitter": submitter_facts()})
    return ImageBuildDetails(workspace._client, workspace._path("builds", record["id"]))


def _image_details(workspace, name, version):
    """Facts of the image of a registered environment, built or not."""
    try:
        found = workspace._client.get(workspace._path("environments", name, "image"), version=version)
    except errors.NotFound:
        found = None
    return DockerImageDetails(_image_object(found))


class ImageBuildDetails(object):
    """A running or finished build. `log_url` is the address of its log."""

    def __init__(self, environment_client, location):
        self.environment_client = environment_client
        self.log_url = "%s/api/v1%s/log" % (environment_client.transport.address, location) if location else None
        self._path = location

    @property
    def status(self):
        """"Queued", "Running", "Succeeded" or "Failed", as of now."""
        return self._record()["state"]

    def get_log(self):
        """Log of the build so far."""
        return self._log_after(0).decode("utf-8", "replace")

    def wait_for_completion(self, show_output=True):
        """Wait until built; return self. Raises with the cause and the next step if the build failed."""
        record, shown = self._record(), 0
        pause = _POLL_SECONDS_WITH_OUTPUT if show_output else _POLL_SECONDS
        while record["state"] not in _BUILD_ENDED:
            shown += self._show_after(shown) if show_output else 0
            record = self.environment_client.get(self._path + "/wait", version=record["version"], timeout=pause)
        if show_output:
            self._show_after(shown)
            print("Image build status: %s" % record["state"])
        if record["state"] == "Failed":
            raise _build_error(record)
        return self

    def _record(self):
        return self.environment_client.get(self._path)

    def _log_after(self, offset):
        return self.environment_client.read(self._path + "/log", offset=offset)

    def _show_after(self, offset):
        """Print complete lines from that offset on; return the number of bytes printed."""
        import sys
        content = self._log_after(offset)
        content = content[:content.rfind(b"\n") + 1]
        sys.stdout.write(content.decode("utf-8", "replace"))
        sys.stdout.flush()
        return len(content)


class DockerImageDetails(dict):
    """Facts of an environment's image, in v1's mapping."""

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


def _image_object(image):
    """JSON of v1 for a built image. It has no registry: the image is in the local container engine, under its name."""
    if not image:
        return {"imageExistsInRegistry": False}
    python = image.get("python")
    folder = os.path.dirname(os.path.dirname(python)) if python else None
    return {"imageExistsInRegistry": True, "dockerImageId": image.get("id"),
            "dockerImage": {"name": image.get("name"), "registry": {"address": None}},
            "ingredients": {"dockerfile": image.get("dockerfile")},
            "pythonEnvironment": {"interpreterPath": python, "condaEnvironmentPath": folder}}


def _build_error(record):
    error = record.get("error") or {}
    facts = {name: value for name, value in error.items() if name not in ("problem", "hint")}
    return translated(errors.EnvironmentFailed(
        error.get("problem") or "The environment could not be built.", hint=error.get("hint") or "", **facts))


def _save_folder(environment, path, overwrite):
    """Write the folder, without the registry's password. It may exist only with `overwrite`."""
    os.makedirs(path, exist_ok=overwrite)
    conda = environment.python.conda_dependencies
    _write_file(path, _CONDA_FILE, conda.serialize_to_string() if conda is not None else None)
    _write_file(path, _DOCKERFILE, environment.docker.base_dockerfile)
    _write_file(path, _DEFINITION_FILE, json.dumps(without_secrets(environment._to_object()), indent=4))


def _load_folder(kind, path):
    """Read what `_save_folder` wrote into an object of class `kind`; edits of the conda file and Dockerfile take
    effect."""
    definition = os.path.join(path, _DEFINITION_FILE)
    if not os.path.isfile(definition):
        raise UserErrorException("There is no %s in %r." % (_DEFINITION_FILE, str(path)))
    with open(definition, encoding="utf-8") as file:
        try:
            made = kind._from_object(_checked_mapping(json.load(file)))
        except ValueError as error:
            raise UserErrorException("%r is no environment's definition: %s." % (definition, error))
    if os.path.isfile(os.path.join(path, _CONDA_FILE)):
        made.python.conda_dependencies = CondaDependencies(os.path.join(path, _CONDA_FILE))
    if os.path.isfile(os.path.join(path, _DOCKERFILE)):
        made.docker.base_dockerfile = os.path.join(path, _DOCKERFILE)
    return made


def _checked_mapping(value):
    if not isinstance(value, dict):
        raise ValueError("it must hold a mapping")
    return value


def _write_file(folder, name, text):
    """Write the file; None removes one that an earlier environment left, which would be read as this one's."""
    path = os.path.join(folder, name)
    if text is not None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    elif os.path.lexists(path):
        os.remove(path)


def _exported_conda_environment(name):
    """conda specification of the environment; None, with a printed reason, if conda cannot export it."""
    import subprocess
    program = _conda_program()
    if program is None:
        print("Could not export the conda environment %r: there is no %s on the PATH." % (
            name, ", ".join(_CONDA_PROGRAMS)))
        return None
    done = subprocess.run([program, "env", "export", _conda_selection(str(name))], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode:
        reason = done.stderr.decode("utf-8", "replace").strip() or "exit status %d" % done.returncode
        print("Could not export the conda environment %r: %s" % (name, reason))
        return None
    try:
        found = loads(done.stdout.decode("utf-8"))
    except (YamlError, UnicodeDecodeError) as error:
        print("Could not export the conda environment %r: %s does not print YAML. %s" % (name, program, error))
        return None
    return _portable_specification(found or {})


def _conda_program():
    from shutil import which
    named = [os.environ.get(name) for name in _CONDA_VARIABLES] + list(_CONDA_PROGRAMS)
    return next((found for found in (which(name) for name in named if name) if found), None)


def _conda_selection(name):
    """The option and its value as one argument, so that no name is read as an option."""
    return "--%s=%s" % ("prefix" if os.sep in name else "name", name)


def _portable_specification(specification):
    """Specification without prefix and build strings, which only fit this platform."""
    kept = {key: value for key, value in specification.items() if key != "prefix"}
    kept["dependencies"] = [
        "=".join(package.split("=")[:2]) if isinstance(package, str) and package.count("=") == 2 and
        "==" not in package else package for package in kept.get("dependencies") or []]
    return kept


def _kept_wheel(path):
    """Copy the wheel and return the URL of the copy, which is content-addressed: later changes of the original have no
    effect."""
    from runyard_sdk.blobs import hashed
    from runyard_sdk.home import ensured_home
    sha256 = hashed(path)[0]
    kept = os.path.join(ensured_home(), "wheels", sha256, os.path.basename(path))
    if not os.path.isfile(kept):
        _copy_wheel(path, kept)
    from pathlib import Path
    return Path(kept).as_uri()


def _copy_wheel(path, kept):
    import shutil
    os.makedirs(os.path.dirname(kept), mode=0o700, exist_ok=True)
    beside = "%s.%d" % (kept, os.getpid())
    shutil.copyfile(path, beside)
    os.replace(beside, kept)
