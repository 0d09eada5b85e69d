import os

from azureml._elements import Element, without_secrets
from azureml.core._environment_sections import DEFAULT_CPU_IMAGE, DEFAULT_GPU_IMAGE
from azureml.core._run_sections import (  # noqa: F401
    SUPPORTED_DATAREF_MODES, SUPPORTED_DELIVERY_MECHANISM, SUPPORTED_PYTORCH_BACKENDS, AmlComputeConfiguration,
    ApplicationEndpointConfiguration, AzureContainerRegistry, ContainerRegistry, Cr, Data, DatacacheConfiguration,
    DataLocation, DataPath, DataReferenceConfiguration, Dataset, DatasetRegistrationOptions, DockerConfiguration,
    EnvironmentDefinition, GlobsOptions, HdiConfiguration, HistoryConfiguration, KubernetesComputeConfiguration,
    MountOptions, MpiConfiguration, OutputData, OutputOptions, ParallelTaskConfiguration, PyTorchConfiguration,
    RegistrationOptions, SparkConfiguration, TensorflowConfiguration, UploadOptions, Uri)
from azureml.core.compute.compute import ComputeTarget
from azureml.core.compute_target import AbstractComputeTarget
from azureml.core.conda_dependencies import CondaDependencies
from azureml.core.databricks import (  # noqa: F401
    DatabricksCluster, DatabricksEnvironment, DatabricksSection, EggLibrary, JarLibrary, MavenLibrary, PyPiLibrary,
    RCranLibrary)
from azureml.core.environment import (  # noqa: F401
    DockerEnvironment, DockerSection, Environment, PythonEnvironment, PythonSection, SparkEnvironment, SparkSection)
from azureml.core.run import Run  # noqa: F401
from azureml.data.datacache_consumption_config import DatacacheConsumptionConfig  # noqa: F401
from azureml.data.dataset_consumption_config import DatasetConsumptionConfig  # noqa: F401
from azureml.exceptions import RunConfigurationException, UserErrorException  # noqa: F401

AML_CONFIG_DIR = "aml_config"
AZUREML_DIR = ".azureml"
COMPUTECONTEXT_EXTENSION = ".compute"
RUNCONFIGURATION_EXTENSION = ".runconfig"
LOCAL_RUNCONFIG_NAME = "local"
MPI_CPU_IMAGE = DEFAULT_CPU_IMAGE
MPI_GPU_IMAGE = DEFAULT_GPU_IMAGE

_CONDA_FILE = "conda_dependencies.yml"
_ENVIRONMENT_FILE = "environment.yml"


class RunConfiguration(Element):
    """How a script is run: target, environment, data, distribution. `save` and `load` keep it as a .runconfig file."""

    _fields = {"script": None, "command": None, "arguments": None, "_target": None, "framework": None,
               "communicator": None, "max_run_duration_seconds": None, "node_count": None, "priority": None,
               "_environment_variables": None, "environment": EnvironmentDefinition, "history": HistoryConfiguration,
               "spark": SparkConfiguration, "docker": DockerConfiguration, "hdi": HdiConfiguration,
               "tensorflow": TensorflowConfiguration, "mpi": MpiConfiguration, "pytorch": PyTorchConfiguration,
               "paralleltask": ParallelTaskConfiguration, "amlcompute": AmlComputeConfiguration,
               "kubernetescompute": KubernetesComputeConfiguration, "services": {"": ApplicationEndpointConfiguration},
               "data_references": {"": DataReferenceConfiguration}, "data": {"": Data}, "output_data": {"": OutputData},
               "datacaches": [DatacacheConfiguration], "source_directory_data_store": None,
               "auto_cluster_compute_specification": None, "credential_passthrough": None}
    _names = {"services": "applicationEndpoints"}

    def __init__(self, script=None, arguments=None, framework=None, communicator=None, conda_dependencies=None,
                 _history_enabled=None, _path=None, _name=None, command=None):
        self.script = script
        self.command = command
        self.arguments = arguments if arguments else []
        self._target = LOCAL_RUNCONFIG_NAME
        self.framework = framework or "Python"
        self.communicator = communicator or "None"
        self.max_run_duration_seconds = None
        self.node_count = 1
        self.priority = None
        self._environment_variables = {}
        self.environment = EnvironmentDefinition()
        self.history = HistoryConfiguration()
        self.spark = SparkConfiguration()
        self.docker = DockerConfiguration()
        self.hdi = HdiConfiguration()
        self.tensorflow = TensorflowConfiguration()
        self.mpi = MpiConfiguration()
        self.pytorch = PyTorchConfiguration()
        self.paralleltask = ParallelTaskConfiguration()
        self.amlcompute = AmlComputeConfiguration()
        self.kubernetescompute = KubernetesComputeConfiguration()
        self.services = {}
        self.data_references = {}
        self.data = {}
        self.output_data = {}
        self.datacaches = []
        self.source_directory_data_store = None
        self.auto_cluster_compute_specification = {}
        self.credential_passthrough = False
        self._auto_prepare_environment = True
        self._path, self._name = _path, _name
        if conda_dependencies is not None:
            self.environment.python.conda_dependencies = conda_dependencies
        if _history_enabled is not None:
            self.history.output_collection = _history_enabled

    @property
    def target(self):
        """The name of the compute target. A compute object may be set too."""
        return self._target

    @target.setter
    def target(self, target):
        if isinstance(target, (ComputeTarget, AbstractComputeTarget)):
            target = target.name
        if not isinstance(target, str) or not target:
            raise UserErrorException("target must be a compute target or its name, got %r." % (target,))
        self._target = target

    @property
    def environment_variables(self):
        return self._environment_variables or self.environment.environment_variables

    @environment_variables.setter
    def environment_variables(self, variables):
        self._environment_variables = variables

    @property
    def auto_prepare_environment(self):
        """Kept for old scripts: an environment is always prepared."""
        return self._auto_prepare_environment

    @auto_prepare_environment.setter
    def auto_prepare_environment(self, auto_prepare_environment):
        self._auto_prepare_environment = auto_prepare_environment

    def save(self, path=None, name=None, separate_environment_yaml=False):
        """Write NAME.runconfig and conda_dependencies.yml into the configuration folder of `path`, without the
        password of an image's registry."""
        from azureml._yaml import dumps
        folder, name = _config_folder(path or self._path or "."), name or self._name or LOCAL_RUNCONFIG_NAME
        os.makedirs(folder, exist_ok=True)
        written = without_secrets(self._to_object())
        conda = self.environment.python.conda_dependencies
        if conda is not None:
            conda.save(os.path.join(folder, _CONDA_FILE))
            written["environment"]["python"]["condaDependenciesFile"] = _CONDA_FILE
            written["environment"]["python"].pop("condaDependencies")
        if separate_environment_yaml:
            _write(os.path.join(folder, _ENVIRONMENT_FILE), dumps(written["environment"]))
            written["environment"] = None
        _write(os.path.join(folder, name + RUNCONFIGURATION_EXTENSION), dumps(written))
        self._path, self._name = path or self._path or ".", name

    @staticmethod
    def load(path, name=None):
        """The configuration that `save` wrote. `path` is the project folder, or the .runconfig file itself."""
        file_path = _find(path, name)
        folder = os.path.dirname(os.path.abspath(file_path))
        given = _read(file_path)
        if not given.get("environment") and os.path.isfile(os.path.join(folder, _ENVIRONMENT_FILE)):
            given["environment"] = _read(os.path.join(folder, _ENVIRONMENT_FILE))
        _check_sections(given, file_path)
        python = (given.get("environment") or {}).get("python") or {}
        conda_file = python.pop("condaDependenciesFile", None)
        made = RunConfiguration._from_object(given)
        if conda_file:
            made.environment.python.conda_dependencies = CondaDependencies(_beside(folder, conda_file))
        made._path, made._name = path, name
        return made

    @staticmethod
    def delete(path, name):
        os.remove(_find(path, name))


def _config_folder(path):
    old = os.path.join(path, AML_CONFIG_DIR)
    return old if os.path.isdir(old) else os.path.join(path, AZUREML_DIR)


def _find(path, name):
    if os.path.isfile(path):
        return path
    if name is None:
        raise UserErrorException("%r is not a .runconfig file; give `name` for the one to load from this folder." % (
            str(path),))
    for folder in (AZUREML_DIR, AML_CONFIG_DIR, ""):
        candidate = os.path.join(path, folder, name + RUNCONFIGURATION_EXTENSION)
        if os.path.isfile(candidate):
            return candidate
    raise UserErrorException("There is no %s%s in %r or its %s or %s folder." % (
        name, RUNCONFIGURATION_EXTENSION, str(path), AZUREML_DIR, AML_CONFIG_DIR))


def _beside(folder, conda_file):
    """The conda file next to the configuration, else relative to the project folder."""
    candidates = [os.path.join(folder, conda_file), os.path.join(os.path.dirname(folder), conda_file)]
    return next((path for path in candidates if os.path.isfile(path)), candidates[0])


def _read(path):
    from azureml._yaml import MAX_CHARACTERS, YamlError, loads
    with open(path, encoding="utf-8") as file:
        try:
            given = loads(file.read(MAX_CHARACTERS + 1))
        except (YamlError, UnicodeDecodeError) as error:
            raise RunConfigurationException("The run configuration %r cannot be read. %s" % (str(path), error))
    if not isinstance(given, dict):
        raise RunConfigurationException("The run configuration %r must hold a mapping." % str(path))
    return given


def _check_sections(given, path):
    """A section that is no mapping or list is named here; further on nobody would know where it came from."""
    kinds = {RunConfiguration._key(name).lower(): kind for name, kind in RunConfiguration._fields.items()}
    found = [(key, value, kinds.get(str(key).lower())) for key, value in given.items()]
    if isinstance(given.get("environment"), dict):
        found.append(("environment.python", given["environment"].get("python"), dict))
    for key, value, kind in found:
        if kind and value and not isinstance(value, list if isinstance(kind, list) else dict):
            raise RunConfigurationException("%s of the run configuration %r must be a %s." % (
                key, str(path), "list" if isinstance(kind, list) else "mapping"))


def _write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
