"""The parts of a run configuration, each a plain object with the fields that a .runconfig file has."""
from azureml._elements import Element
from azureml.core.container_registry import ContainerRegistry as Cr
from azureml.core.environment import Environment
from azureml.exceptions import RunConfigurationException, UserErrorException

SUPPORTED_DATAREF_MODES = ["mount", "download", "upload"]
SUPPORTED_DELIVERY_MECHANISM = ["direct", "mount", "download", "upload"]
SUPPORTED_PYTORCH_BACKENDS = ["nccl", "gloo"]


class EnvironmentDefinition(Environment):
    """The old name of Environment inside a run configuration."""

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
    """Whether and how a run is put into a container."""

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
    """`process_count` is the total over all nodes; None means one process a node."""

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
    """The one-off cluster of a run whose target is 'amlcompute'."""

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
    """A dataset that a run reads. Make one with `dataset.as_named_input(...)` rather than by hand."""

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
        """The Data of a dataset input; a Data is given back as it is."""
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
