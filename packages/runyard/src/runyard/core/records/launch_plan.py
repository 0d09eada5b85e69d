from collections.abc import Mapping
from dataclasses import dataclass, field

from runyard.core.records.files import FileEntry
from runyard.core.records.runs import AttemptId, RunId

DEFAULT_PLATFORM = "linux/amd64"


@dataclass(frozen=True)
class ImageSpec:
    """The container image of an environment. It has a `base` or a `dockerfile`, not both."""

    base: str = ""
    """The reference to pull, with the registry in front if the user gave one."""
    dockerfile: str = ""
    """The text of the Dockerfile that the base is built from."""
    context: tuple[FileEntry, ...] = ()
    """The files that the Dockerfile may copy; it gets no others."""
    registry: str = ""
    """Address of the registry. The node asks the service for its credentials; no plan holds them."""
    login: str = ""
    """Digest of the registry logins, without a password. An image that needs a login is reused only by callers who
    have that login."""
    platform: str = DEFAULT_PLATFORM
    interpreter: str = ""
    """The user's interpreter in an image that is used unchanged: a path, or a name on its PATH."""


@dataclass(frozen=True)
class VolumeRequest:
    source: str
    target: str
    is_read_only: bool = False


@dataclass(frozen=True)
class ContainerRequest:
    """Options of a run's containers that differ from the defaults. Not part of the environment's key."""

    shm_bytes: int | None = None
    memory_bytes: int | None = None
    cpus: float | None = None
    wants_gpus: bool = False
    ipc: str = ""
    network: str = ""
    user: str = ""
    hostname: str = ""
    is_privileged: bool = False
    volumes: tuple[VolumeRequest, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    ulimits: tuple[tuple[str, int, int], ...] = ()
    added_capabilities: tuple[str, ...] = ()
    dropped_capabilities: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    hosts: tuple[tuple[str, str], ...] = ()
    security: tuple[str, ...] = ()
    sysctls: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class ProcessSpec:
    """One process of a run on a node. The node fills in "{python}" once the environment is ready."""

    rank: int
    command: tuple[str, ...]
    env: Mapping[str, str]
    log: str
    """Path of its log in the run history, e.g. azureml-logs/70_driver_log.txt."""
    role: str = "worker"
    """"worker"; "launcher", which starts the ranks; "ps" or "server", which serve the other processes and never exit by
    themselves: the platform stops them once the others have ended."""

    @property
    def is_essential(self) -> bool:
        """True if the run lasts as long as this process."""
        return self.role not in ("ps", "server")


@dataclass(frozen=True)
class DataItem:
    """Data that a run needs. The node stages it and replaces `placeholder` in arguments by its path.

    The node asks the service for its exact source, credentials included, when it stages the data.
    """

    name: str
    kind: str
    """"dataset" (read-only), "reference" (a data reference) or "output" (an output dataset)."""
    mode: str
    """"mount", "download" or "upload"."""
    placeholder: str
    dataset_id: str = ""
    datastore: str = ""
    path: str = ""
    """Path on the datastore, for references and outputs; "" is its root."""
    variables: tuple[str, ...] = ()
    """Set to the item's path in the script's environment."""
    path_on_compute: str | None = None
    overwrite: bool = False
    globs: tuple[str, ...] = ()
    """Files of an uploaded output to keep; empty means all."""


@dataclass(frozen=True)
class CondaSpec:
    """The user's conda packages, for a machine that has conda. Without conda, `requirements` of the environment holds
    the matching PyPI packages."""

    packages: tuple[str, ...]
    """Packages as the user wrote them, such as "numpy=1.16" or "conda-forge::lightgbm", without the Python version."""
    channels: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    """Packages that pip installs on top."""


@dataclass(frozen=True)
class EnvironmentSpec:
    """The interpreter and packages that a run needs. Equal specs have equal `key`s and share one environment."""

    python: str = ""
    """Requested version such as "3.6.2", or an absolute path if `user_managed`."""
    requirements: tuple[str, ...] = ()
    user_managed: bool = False
    exact_python: bool = False
    """True if a framework works only on these minor versions; `python` then lists them, best first: "3.6,3.7"."""
    constraints: tuple[str, ...] = ()
    build_constraints: tuple[str, ...] = ()
    preferences: tuple[str, ...] = ()
    """Constraints that are all dropped if they cannot be met together."""
    choices: tuple[tuple[str, ...], ...] = ()
    """Sets of requirements, best first: the first that can be installed is added (a CPU build, else any)."""
    builds: tuple[str, ...] = ()
    """Requirements compiled after all others are installed, such as "horovod==0.16.1". Without a version, the release
    that fits the framework is chosen; if there is none, it is skipped."""
    python_instead: str = ""
    """Fallback if the packages need another Python and the user did not choose `python`. Not part of the key."""
    library_links: tuple[tuple[str, str], ...] = ()
    """Library names that old packages load, each with the installed library to link to."""
    conda: CondaSpec | None = None
    image: ImageSpec | None = None
    """The container image that holds the environment; None for a virtual environment of the machine."""
    sources: str = ""
    """Hash of the package indexes if they are not the default ones; part of the key."""
    locked: str = ""
    """The lock of an earlier build that must be reproduced exactly."""
    notes: tuple[str, ...] = ()
    """Lines for the build log: what was mapped, substituted or dropped. Not part of the key."""


@dataclass(frozen=True)
class PortRequest:
    """A port that a process of the node will bind. The node chooses one that is free on the machine."""

    name: str
    preferred: int | None = None


@dataclass(frozen=True)
class NodePlan:
    address: str
    processes: tuple[ProcessSpec, ...]
    gpus: tuple[str, ...] = ()
    name: str = ""
    """Its name in the cluster, for logs and errors."""
    ports: tuple[PortRequest, ...] = ()
    ranks: tuple[int, ...] = ()
    """Ranks that the launcher of an MPI run starts on this node."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables of those ranks."""


@dataclass(frozen=True)
class LaunchPlan:
    """Everything an engine needs to start one attempt of a run, and nothing it must work out.

    `kind` is "run", or "prepare" to only build the environment. The node replaces these placeholders in commands:
    "{python}", the interpreter of the environment; "{mpirun}", "{rsh_agent}", "{host_file}" and "{rank_starter}" for
    MPI. "{host_file}" may also be the value of a variable. Text after "{rank_starter}" is filled in on the node of each
    rank. "<port:NODE:NAME>", anywhere in a command or variable, is the port that node NODE chose for its request NAME.
    """

    attempt_id: AttemptId
    run_id: RunId
    kind: str
    environment: EnvironmentSpec
    nodes: tuple[NodePlan, ...]
    code: tuple[FileEntry, ...] = ()
    data: tuple[DataItem, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    collect: tuple[str, ...] = ("outputs", "logs")
    max_seconds: int | None = None
    cancel_grace_seconds: float = 10.0
    notices: tuple[str, ...] = ()
    """Lines for the top of rank 0's log, e.g. that the run uses the CPU."""
    token: str = ""
    """Token of the supervisor for requests to the service."""
    node: int = 0
    """Index in `nodes` of the node that this copy of the plan is for."""
    secret: str = ""
    """Shared secret of the nodes of an MPI run."""
    shares_files: bool = True
    """True if the node sees the service's disk: files are passed by path."""
    container: ContainerRequest = field(default_factory=ContainerRequest)
    """Options of the run's containers, if its environment has an image."""
    restores_outputs: bool = False
    """Restore the run's files below outputs/ first, so that it continues from its checkpoints."""

    @property
    def part(self) -> str:
        """Name of this node's task, and of its folder."""
        return node_task_name(self.attempt_id, self.node)

    @property
    def here(self) -> NodePlan:
        return self.nodes[self.node]

    @property
    def is_distributed(self) -> bool:
        """True if its processes communicate with each other, even if there is only one."""
        return len(self.nodes) > 1 or len(self.here.processes) > 1 or bool(self.here.ranks or self.here.ports)

    @property
    def shares_outputs(self) -> bool:
        """True if all nodes share one ./outputs, which node 0 uploads after all others have ended."""
        return len(self.nodes) > 1 and self.shares_files and self.kind == "run"


def node_task_name(attempt_id: AttemptId, node: int) -> str:
    """Name of a node's task. Attempt ids end in a number, so it equals no other attempt's id."""
    return f"{attempt_id}-{node}" if node else attempt_id
