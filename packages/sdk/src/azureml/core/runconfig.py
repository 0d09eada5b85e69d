"""RunConfiguration and its sections, each a plain object with the fields of a .runconfig file."""

import os

from azureml._elements import Element, without_secrets
from azureml.core._environment_sections import DEFAULT_CPU_IMAGE, DEFAULT_GPU_IMAGE
from azureml.core.compute.compute import ComputeTarget
from azureml.core.compute_target import AbstractComputeTarget
from azureml.core.conda_dependencies import CondaDependencies
from azureml.core.container_registry import ContainerRegistry as Cr
from azureml.core.databricks import (  # noqa: F401
    DatabricksCluster, DatabricksEnvironment, DatabricksSection, EggLibrary, JarLibrary, MavenLibrary, PyPiLibrary,
    RCranLibrary)
from azureml.core.environment import (  # noqa: F401
    DockerEnvironment, DockerSection, Environment, PythonEnvironment, PythonSection, SparkEnvironment, SparkSection)
from azureml.core.run import Run  # noqa: F401
from azureml.data.datacache_consumption_config import DatacacheConsumptionConfig  # noqa: F401
from azureml.data.dataset_consumption_config import DatasetConsumptionConfig  # noqa: F401
from azureml.exceptions import RunConfigurationException, UserErrorException  # noqa: F401

SUPPORTED_DATAREF_MODES = ["mount", "download", "upload"]
SUPPORTED_DELIVERY_MECHANISM = ["direct", "mount", "download", "upload"]
SUPPORTED_PYTORCH_BACKENDS = ["nccl", "gloo"]
AML_CONFIG_DIR = "aml_config"
AZUREML_DIR = ".azureml"
COMPUTECONTEXT_EXTENSION = ".compute"
RUNCONFIGURATION_EXTENSION = ".runconfig"
LOCAL_RUNCONFIG_NAME = "local"
MPI_CPU_IMAGE = DEFAULT_CPU_IMAGE
MPI_GPU_IMAGE = DEFAULT_GPU_IMAGE

_CONDA_FILE = "conda_dependencies.yml"
_ENVIRONMENT_FILE = "environment.yml"


class EnvironmentDefinition(Environment):
    """Old name of Environment inside a run configuration."""

    def __init__(self, name=None):
        super(EnvironmentDefinition, self).__init__(name)

    @classmethod
    def _blank(cls):
        return cls()


class ContainerRegistry(Cr):
    pass


class AzureContainerRegistry(ContainerRegistry):
    pass


class DockerConfiguration(Element):
    """Whether and how a run uses a container."""

    _fields = dict.fromkeys(("use_docker", "shared_volumes", "arguments", "shm_size"))

    def __init__(self, use_docker=False, shared_volumes=True, arguments=[], shm_size="2g"):  # noqa: B006
        self.use_docker = use_docker
        self.shared_volumes = shared_volumes
        self.arguments = list(arguments)
        self.shm_size = shm_size


class MpiConfiguration(Element):
    _fields = dict.fromkeys(("process_count_per_node", "node_count"))

    def __init__(self, process_count_per_node=1, node_count=1):
        self.process_count_per_node = process_count_per_node
        self.node_count = node_count


class TensorflowConfiguration(Element):
    """Tasks of a parameter-server job: `worker_count` workers and `parameter_server_count` servers."""

    _fields = dict.fromkeys(("worker_count", "parameter_server_count"))

    def __init__(self, worker_count=1, parameter_server_count=1):
        self.worker_count = worker_count
        self.parameter_server_count = parameter_server_count


class PyTorchConfiguration(Element):
    """`process_count` is the total over all nodes; None means one process per node."""

    _fields = dict.fromkeys(("communication_backend", "process_count", "node_count"))

    def __init__(self, communication_backend="Nccl", process_count=None, node_count=1):
        if str(communication_backend).lower() not in SUPPORTED_PYTORCH_BACKENDS:
            raise RunConfigurationException("communication_backend must be 'Nccl' or 'Gloo', got %r." % (
                communication_backend,))
        self.communication_backend = communication_backend
        self.process_count = process_count
        self.node_count = node_count


class ParallelTaskConfiguration(Element):
    _fields = dict.fromkeys(("max_retries_per_worker", "worker_count_per_node", "terminal_exit_codes"))

    def __init__(self):
        self.max_retries_per_worker = 0
        self.worker_count_per_node = 1
        self.terminal_exit_codes = None


class HistoryConfiguration(Element):
    _fields = dict.fromkeys(("output_collection", "snapshot_project", "directories_to_watch"))

    def __init__(self):
        self.output_collection = True
        self.snapshot_project = True
        self.directories_to_watch = ["logs"]


class SparkConfiguration(Element):
    _fields = {"configuration": None}

    def __init__(self):
        self.configuration = {}


class HdiConfiguration(Element):
    _fields = {"yarn_deploy_mode": None}

    def __init__(self):
        self.yarn_deploy_mode = "cluster"


class AmlComputeConfiguration(Element):
    """One-off cluster of a run whose target is 'amlcompute'."""

    _fields = dict.fromkeys(("vm_size", "vm_priority", "_name", "_retain_cluster", "_cluster_max_node_count"))

    def __init__(self):
        self.vm_size = None
        self.vm_priority = None
        self._name = None
        self._retain_cluster = False
        self._cluster_max_node_count = 1


class KubernetesComputeConfiguration(Element):
    _fields = {"instance_type": None}

    def __init__(self):
        self.instance_type = None


class ApplicationEndpointConfiguration(Element):
    _fields = dict.fromkeys(("type", "port", "properties"))

    def __init__(self, type=None, port=None, properties=None):
        self.type = type
        self.port = port
        self.properties = properties


class DataReferenceConfiguration(Element):
    """A folder of a datastore that a run mounts, downloads or uploads."""

    _fields = dict.fromkeys(("data_store_name", "mode", "path_on_data_store", "path_on_compute", "overwrite"))

    def __init__(self, datastore_name=None, mode="mount", path_on_datastore=None, path_on_compute=None,
                 overwrite=False):
        if str(mode).lower() not in SUPPORTED_DATAREF_MODES:
            raise UserErrorException("mode must be one of %s, got %r." % (
                ", ".join(map(repr, SUPPORTED_DATAREF_MODES)), mode))
        self.data_store_name = datastore_name
        self.mode = str(mode).lower()
        self.path_on_data_store = path_on_datastore
        self.path_on_compute = path_on_compute
        self.overwrite = overwrite


class Dataset(Element):
    _fields = dict.fromkeys(("id", "name", "version"))

    def __init__(self, dataset_id=None, dataset_name=None, dataset_version=None):
        self.id = dataset_id
        self.name = dataset_name
        self.version = dataset_version


class DataPath(Element):
    _fields = dict.fromkeys(("datastore_name", "relative_path"))

    def __init__(self, datastore_name=None, relative_path=None):
        self.datastore_name = datastore_name
        self.relative_path = relative_path


class Uri(Element):
    _fields = dict.fromkeys(("path", "is_file"))

    def __init__(self, path=None, is_file=False):
        self.path = path
        self.is_file = is_file


class DataLocation(Element):
    _fields = {"dataset": Dataset, "data_path": DataPath, "uri": Uri}

    def __init__(self, dataset=None, data_path=None, uri=None):
        self.dataset = dataset
        self.data_path = data_path
        self.uri = uri


class Data(Element):
    """A dataset that a run reads. Usually made by `dataset.as_named_input(...)`."""

    _fields = {"data_location": DataLocation, "create_output_directories": None, "mechanism": None,
               "environment_variable_name": None, "path_on_compute": None, "overwrite": None, "options": None}

    def __init__(self, data_location=None, create_output_directories=None, mechanism="direct",
                 environment_variable_name=None, path_on_compute=None, overwrite=False, options=None):
        self.data_location = data_location
        self.create_output_directories = create_output_directories
        self.mechanism = mechanism
        self.environment_variable_name = environment_variable_name
        self.path_on_compute = path_on_compute
        self.overwrite = overwrite
        self.options = options

    @staticmethod
    def create(data):
        """Data of a dataset input; a Data is returned unchanged."""
        if isinstance(data, Data):
            return data
        dataset = data.dataset
        return Data(DataLocation(Dataset(dataset.id, dataset.name, dataset.version)), False, data.mode, data.name,
                    data.path_on_compute)

    def _bind(self, inputs):
        raise UserErrorException("A Data object cannot be an argument: give dataset.as_named_input('name').as_mount() "
                                 "or .as_download() instead.")


class GlobsOptions(Element):
    _fields = {"patterns": None}

    def __init__(self, patterns=None):
        self.patterns = patterns


class UploadOptions(Element):
    _fields = {"overwrite": None, "source_globs": GlobsOptions}

    def __init__(self, overwrite=False, source_globs=None):
        self.overwrite = overwrite
        self.source_globs = source_globs


class MountOptions(Element):
    _fields = {"disable_metadata_cache": None}

    def __init__(self, disable_metadata_cache=False):
        self.disable_metadata_cache = disable_metadata_cache


class DatasetRegistrationOptions(Element):
    _fields = {"additional_transformation": None}

    def __init__(self, additional_transformations=None):
        self.additional_transformation = additional_transformations


class RegistrationOptions(Element):
    _fields = {"name": None, "description": None, "tags": None,
               "dataset_registration_options": DatasetRegistrationOptions}

    def __init__(self, name=None, description=None, tags=None, dataset_registration_options=None):
        self.name = name
        self.description = description
        self.tags = tags
        self.dataset_registration_options = dataset_registration_options


class OutputOptions(Element):
    _fields = {"path_on_compute": None, "registration_options": RegistrationOptions, "upload_options": UploadOptions,
               "mount_options": MountOptions}

    def __init__(self, path_on_compute=None, registration_options=None, upload_options=None, mount_options=None):
        self.path_on_compute = path_on_compute
        self.registration_options = registration_options
        self.upload_options = upload_options
        self.mount_options = mount_options


class OutputData(Element):
    _fields = {"output_location": DataLocation, "mechanism": None, "additional_options": OutputOptions}

    def __init__(self, output_location=None, mechanism="mount", additional_options=None):
        self.output_location = output_location
        self.mechanism = mechanism
        self.additional_options = additional_options


class DatacacheConfiguration(Element):
    _fields = dict.fromkeys(("dataset_id", "datacache_store", "datacache_id", "mode", "path_on_compute", "replica",
                             "failure_fallback"))

    def __init__(self, dataset_id=None, datacache_store=None, datacache_id=None, mode="mount", path_on_compute=None,
                 replica=None, failure_fallback=False):
        self.dataset_id = dataset_id
        self.datacache_store = datacache_store
        self.datacache_id = datacache_id
        self.mode = mode
        self.path_on_compute = path_on_compute
        self.replica = replica
        self.failure_fallback = failure_fallback

    @staticmethod
    def create(data):
        return DatacacheConfiguration(dataset_id=data.dataset.id, mode=data.mode, path_on_compute=data.path_on_compute)


class RunConfiguration(Element):
    """Settings of a run: target, environment, data, distribution. `save` and `load` use a .runconfig file."""

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
        """Name of the compute target. A compute object may be set too."""
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
        """Accepted for old scripts: an environment is always prepared."""
        return self._auto_prepare_environment

    @auto_prepare_environment.setter
    def auto_prepare_environment(self, auto_prepare_environment):
        self._auto_prepare_environment = auto_prepare_environment

    def save(self, path=None, name=None, separate_environment_yaml=False):
        """Write NAME.runconfig and conda_dependencies.yml to the configuration folder of `path`, without registry
        passwords."""
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
        """Read what `save` wrote. `path` is the project folder, or the .runconfig file itself."""
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
    """Path of the conda file: next to the configuration, else relative to the project folder."""
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
    """Raise for a section that is no mapping or list, while its name is known."""
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
