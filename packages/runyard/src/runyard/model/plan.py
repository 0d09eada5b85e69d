from collections.abc import Mapping
from dataclasses import dataclass, field

from runyard.model.files import FileEntry
from runyard.model.images import ContainerWish, ImageSpec
from runyard.model.runs import AttemptId, RunId


@dataclass(frozen=True)
class ProcessSpec:
    """One process of a run on a node: `python` is filled in by the node once its environment stands."""

    rank: int
    command: tuple[str, ...]
    env: Mapping[str, str]
    log: str
    """Path of its log in run history, e.g. azureml-logs/70_driver_log.txt."""
    role: str = "worker"
    """"worker"; "launcher", which starts the ranks; "ps" or "server", which serve the others and never end by
    themselves: the platform ends them once the rest have ended."""

    @property
    def is_essential(self) -> bool:
        """Whether the run goes on for as long as this process does."""
        return self.role not in ("ps", "server")


@dataclass(frozen=True)
class DataItem:
    """Data a run wants at hand. The node brings it and replaces `placeholder` in arguments by its path.

    Where it comes from in full, credentials included, the node asks the service when it brings it.
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
    """Of references and outputs: where on the datastore, "" for its root."""
    variables: tuple[str, ...] = ()
    """Set to the item's path in the script's environment."""
    path_on_compute: str | None = None
    overwrite: bool = False
    globs: tuple[str, ...] = ()
    """Of an uploaded output: which of its files; empty means all."""


@dataclass(frozen=True)
class CondaSpec:
    """What the user's conda lists say, for a machine where conda solves them. Where none does, `requirements` of the
    environment has their twins on PyPI."""

    packages: tuple[str, ...]
    """As the user wrote them, such as "numpy=1.16" or "conda-forge::lightgbm"; the wished python is not among them."""
    channels: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    """What pip adds on top."""


@dataclass(frozen=True)
class EnvironmentSpec:
    """What a run's interpreter must hold. Equal specs have equal `key`s and share one environment."""

    python: str = ""
    """Wished version such as "3.6.2", or an absolute path when `user_managed`."""
    requirements: tuple[str, ...] = ()
    user_managed: bool = False
    exact_python: bool = False
    """True when a framework works on these minors only; `python` then lists them, best first: "3.6,3.7"."""
    constraints: tuple[str, ...] = ()
    build_constraints: tuple[str, ...] = ()
    preferences: tuple[str, ...] = ()
    """Constraints that are given up, all together, where they cannot be met."""
    choices: tuple[tuple[str, ...], ...] = ()
    """Sets of requirements, best first: the first that can be had joins `requirements` (a CPU build, else any)."""
    builds: tuple[str, ...] = ()
    """Requirements compiled against all the others once those are installed, such as "horovod==0.16.1"; one without a
    version is the release that suits the framework, and is left out where there is none."""
    python_instead: str = ""
    """Taken where the packages need another Python than `python`, which nobody chose. Not part of the key."""
    library_links: tuple[tuple[str, str], ...] = ()
    """Names under which old packages look for shared libraries, each with the library here that answers to it."""
    conda: CondaSpec | None = None
    image: ImageSpec | None = None
    """The container image that all this lies in; None for a virtual environment of the machine."""
    sources: str = ""
    """Tells apart environments whose packages come from other indexes than the usual: a hash of their addresses."""
    locked: str = ""
    """The lock of an earlier build, which is to be made again exactly."""
    notes: tuple[str, ...] = ()
    """Lines for the build log: what was mapped, substituted or dropped. Not part of the key."""


@dataclass(frozen=True)
class PortWish:
    """A port that a process of the node will bind. The node chooses it, free on the whole machine."""

    name: str
    preferred: int | None = None


@dataclass(frozen=True)
class NodePlan:
    address: str
    processes: tuple[ProcessSpec, ...]
    gpus: tuple[str, ...] = ()
    name: str = ""
    """Its name in the cluster, for logs and errors."""
    ports: tuple[PortWish, ...] = ()
    ranks: tuple[int, ...] = ()
    """Of an MPI run: the ranks that the launcher starts on this node."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables of those ranks."""


@dataclass(frozen=True)
class LaunchPlan:
    """Everything an engine needs to start one attempt of a run, and nothing it must work out.

    `kind` is "run", or "prepare" to build the environment and nothing else. In commands these words stand for
    what the node knows: "{python}" the interpreter of the environment; "{mpirun}", "{rsh_agent}", "{host_file}",
    "{rank_starter}" for MPI; "{host_file}" may be a variable's value too. What follows "{rank_starter}" is filled in
    on the node of each rank. "<port:NODE:NAME>", anywhere in a command or a variable, stands for the port that node
    NODE chose for its wish NAME.
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
    """Lines put at the head of rank 0's log, e.g. that the run takes the CPU."""
    token: str = ""
    """What the supervisor shows the service."""
    node: int = 0
    """Which of `nodes` this copy of the plan is for."""
    secret: str = ""
    """What the nodes of an MPI run show one another."""
    shares_files: bool = True
    """The node sees the service's disk: files are handed over by path."""
    container: ContainerWish = field(default_factory=ContainerWish)
    """How the run's containers are made, where its environment has an image."""
    restores_outputs: bool = False
    """Lay the run's files below outputs/ into the working folder first: the run goes on from its checkpoints."""

    @property
    def part(self) -> str:
        """The name of this node's share of the attempt, and of its folder."""
        return part_name(self.attempt_id, self.node)

    @property
    def here(self) -> NodePlan:
        return self.nodes[self.node]

    @property
    def is_distributed(self) -> bool:
        """Whether its processes speak with one another, be it a single one that serves itself."""
        return len(self.nodes) > 1 or len(self.here.processes) > 1 or bool(self.here.ranks or self.here.ports)

    @property
    def shares_outputs(self) -> bool:
        """Whether all nodes have one ./outputs, which node 0 collects once no other can write there any more."""
        return len(self.nodes) > 1 and self.shares_files and self.kind == "run"


def part_name(attempt_id: AttemptId, node: int) -> str:
    """Attempts end in a number, so this is no other attempt's name."""
    return f"{attempt_id}-{node}" if node else attempt_id
