from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from runyard.core.records.environments import PackageSettings
from runyard.core.records.files import FileEntry
from runyard.core.records.launch_plan import EnvironmentSpec


class ServiceType(StrEnum):
    """Type that the user chose. All run on this machine; they differ in their defaults."""

    ACI = "ACI"
    AKS = "AKS"
    LOCAL = "Local"


class ServiceState(StrEnum):
    TRANSITIONING = "Transitioning"
    HEALTHY = "Healthy"
    UNHEALTHY = "Unhealthy"
    """It was healthy; now no worker answers, and new workers are being started."""
    FAILED = "Failed"
    DELETING = "Deleting"


class Scorer(StrEnum):
    """What a worker runs: the user's script, or a built-in scorer for the model's framework."""

    SCRIPT = "script"
    TENSORFLOW = "tensorflow"
    SCIKIT_LEARN = "scikit-learn"
    ONNX = "onnx"
    PYTORCH = "pytorch"
    CHAINER = "chainer"


@dataclass(frozen=True)
class ServedModel:
    name: str
    version: int
    files: tuple[FileEntry, ...]
    """Paths below azureml-models/NAME/VERSION/."""


@dataclass(frozen=True)
class ServiceAuth:
    """Credentials for scoring. Keys are compared in constant time; tokens are signed with `token_secret`."""

    keys: tuple[str, ...] = ()
    """Primary and secondary key. Empty: no key is needed."""
    token_secret: str = ""
    """If set, signed tokens are accepted and keys are not."""


@dataclass(frozen=True)
class ServingLimits:
    request_bytes: int = 100 << 20
    scoring_seconds: float = 60.0
    """A request that takes longer gets 504, and its worker is replaced."""
    queue_seconds: float = 30.0
    """A request that waits longer for a worker gets 503 with Retry-After."""
    queued_requests: int = 1000
    """Further requests get 503 at once."""
    queued_bytes: int = 256 << 20
    memory_bytes: int = 0
    """A worker that uses more is replaced, and its log says why; 0 means most of the machine's memory."""
    init_seconds: float = 300.0


@dataclass(frozen=True)
class Scale:
    """Replicas are worker processes."""

    least: int = 1
    most: int = 1
    target_utilization: int = 70
    refresh_seconds: float = 1.0
    requests_at_once: int = 1
    """Concurrent requests of one worker, in threads; 1 means one after another, in its main thread."""


@dataclass(frozen=True)
class ListenDefaults:
    """The operator's defaults for the addresses and certificates of web services."""

    host: str = "127.0.0.1"
    names: tuple[str, ...] = ()
    """Names allowed in the Host header; scoring_uri uses the first."""
    certificate: str = ""
    private_key: str = field(default="", repr=False)
    """PEM texts for web services without a certificate of their own."""
    request_bytes: int = ServingLimits.request_bytes


@dataclass(frozen=True)
class VersionShare:
    """One version behind an endpoint."""

    name: str
    service_id: str
    """Id of the web service that serves this version; it has no port of its own."""
    share: int
    """Percentage of requests; the shares of an endpoint add up to 100."""
    is_default: bool = False


@dataclass(frozen=True)
class ServiceSpec:
    """Everything the gateway needs to run a web service, secrets included. Its file is readable by the owner only."""

    id: str
    workspace: str
    name: str
    type: ServiceType
    revision: int
    """Grows when new workers are needed: another model, code or environment, or `reload`."""
    generation: int
    """Grows with every write of the spec. A change of keys, limits or scale needs no new workers."""
    scorer: Scorer
    models: tuple[ServedModel, ...]
    environment: EnvironmentSpec
    code: tuple[FileEntry, ...] = ()
    entry_script: str = ""
    """Path in `code`, for Scorer.SCRIPT."""
    framework_version: str = ""
    """Framework version of the registered model, for messages."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Variables of every worker: those of the environment, thread counts by cpu_cores, CUDA_VISIBLE_DEVICES."""
    build_variables: Mapping[str, str] = field(default_factory=dict)
    """Variables of the user who deployed it, for building its environment: PATH, proxies, indexes."""
    packages: PackageSettings = field(default_factory=PackageSettings)
    """Package settings of the workspace, for the same build."""
    addresses: Mapping[str, str] = field(default_factory=dict)
    """Addresses with passwords, by their placeholders in `environment`."""
    port: int = 0
    """0 means any free port; the chosen port is kept."""
    host: str = "127.0.0.1"
    """The address that the port listens on."""
    host_names: tuple[str, ...] = ()
    """Names allowed in the Host header besides loopback and the address; "*." matches one label."""
    scoring_path: str = "/score"
    """Path of scoring_uri: /score, /api/v1/service/NAME/score or /v1/models/NAME:predict."""
    admission: ServiceAuth = ServiceAuth()
    certificate: str = ""
    private_key: str = ""
    """PEM texts, both or neither. If set, the port uses TLS."""
    limits: ServingLimits = ServingLimits()
    scale: Scale = Scale()
    schema: Mapping[str, object] = field(default_factory=dict)
    """Known schema of inputs and outputs until a worker reports its own."""
    versions: tuple[VersionShare, ...] = ()
    """Not empty for an endpoint: it has a port and no workers, and each request goes to one of these versions."""
    is_version: bool = False
    """True for a version of an endpoint: it has workers and no port."""


@dataclass(frozen=True)
class ServiceFailure:
    problem: str
    hint: str = ""
    step: str = ""
    """files, environment, init, port or running."""
    traceback: str = ""
    logs: str = ""
    """Last lines of the worker's log."""


@dataclass(frozen=True)
class ObservedService:
    """State that the gateway last reported. `version` grows with every change."""

    version: int
    generation: int
    """Generation of the spec that the gateway has read."""
    revision: int
    """Revision of the workers that answer now; 0 before the first are ready."""
    state: ServiceState
    step: str = ""
    """Current step of a deployment: files, environment or init; "" if none is in progress."""
    trouble: ServiceFailure | None = None  # the name in the state file
    """Why the newest revision does not answer, or why no revision does."""
    failed_revision: int = 0
    port: int = 0
    replicas: int = 0
    wanted_replicas: int = 0
    changed_at: datetime | None = None
    notes: tuple[str, ...] = ()
    schema: Mapping[str, object] = field(default_factory=dict)
    """Schema that the worker reported, as far as known: {"input": JSON schema, "output": ..., "sample": ...}."""
