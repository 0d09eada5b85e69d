from azureml._elements import Element
from azureml.exceptions import UserErrorException


class MavenLibrary(Element):
    _fields = {"coordinates": None, "repo": None, "exclusions": None}

    def __init__(self, coordinates=None, repo=None, exclusions=None):
        self.coordinates = coordinates
        self.repo = repo
        self.exclusions = exclusions if exclusions is not None else []


class PyPiLibrary(Element):
    _fields = {"package": None, "repo": None}

    def __init__(self, package=None, repo=None):
        self.package = package
        self.repo = repo


class RCranLibrary(Element):
    _fields = {"package": None, "repo": None}

    def __init__(self, package=None, repo=None):
        self.package = package
        self.repo = repo


class JarLibrary(Element):
    _fields = {"library": None}

    def __init__(self, library=None):
        self.library = library


class EggLibrary(Element):
    _fields = {"library": None}

    def __init__(self, library=None):
        self.library = library


class DatabricksCluster(Element):
    """Settings of a Databricks cluster, kept for run configurations that name one."""

    _fields = dict.fromkeys(
        ("existing_cluster_id", "spark_version", "node_type", "instance_pool_id", "num_workers", "min_workers",
         "max_workers", "spark_env_variables", "spark_conf", "init_scripts", "cluster_log_dbfs_path",
         "permit_cluster_restart"))

    def __init__(self, existing_cluster_id=None, spark_version=None, node_type=None, instance_pool_id=None,
                 num_workers=None, min_workers=None, max_workers=None, spark_env_variables=None, spark_conf=None,
                 init_scripts=None, cluster_log_dbfs_path=None, permit_cluster_restart=None):
        self.existing_cluster_id = existing_cluster_id
        self.spark_version = spark_version
        self.node_type = node_type
        self.instance_pool_id = instance_pool_id
        self.num_workers = num_workers
        self.min_workers = min_workers
        self.max_workers = max_workers
        self.spark_env_variables = spark_env_variables
        self.spark_conf = spark_conf
        self.init_scripts = init_scripts
        self.cluster_log_dbfs_path = cluster_log_dbfs_path
        self.permit_cluster_restart = permit_cluster_restart

    def validate(self):
        if self.existing_cluster_id and (self.spark_version or self.node_type or self.num_workers):
            raise UserErrorException("existing_cluster_id excludes spark_version, node_type and num_workers.")


class DatabricksSection(Element):
    _fields = {"maven_libraries": [MavenLibrary], "pypi_libraries": [PyPiLibrary], "rcran_libraries": [RCranLibrary],
               "jar_libraries": [JarLibrary], "egg_libraries": [EggLibrary], "cluster": DatabricksCluster}

    def __init__(self, _skip_defaults=False):
        self.maven_libraries = []
        self.pypi_libraries = []
        self.rcran_libraries = []
        self.jar_libraries = []
        self.egg_libraries = []
        self._cluster = None

    @property
    def cluster(self):
        return self._cluster

    @cluster.setter
    def cluster(self, cluster):
        if cluster is not None and not isinstance(cluster, DatabricksCluster):
            raise UserErrorException("cluster must be a DatabricksCluster, got %r." % (cluster,))
        self._cluster = cluster


class DatabricksEnvironment(DatabricksSection):
    def __init__(self):
        super(DatabricksEnvironment, self).__init__()
