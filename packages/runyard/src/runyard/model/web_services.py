from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from runyard.model.files import FileEntry
from runyard.model.package_settings import PackageSettings
from runyard.model.plan import EnvironmentSpec


class ServiceType(StrEnum):
    """What the user called it. All of them run on this machine; they differ in their defaults."""

    ACI = "ACI"
    AKS = "AKS"
    LOCAL = "Local"


class ServiceState(StrEnum):
    TRANSITIONING = "Transitioning"
    HEALTHY = "Healthy"
    UNHEALTHY = "Unhealthy"
    """It was healthy; now no worker answers, and new ones are being tried."""
    FAILED = "Failed"
    DELETING = "Deleting"


class Scorer(StrEnum):
    """What a worker runs: the user's script, or one of our own scorers by the model's framework."""

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
    """Paths as they lie below azureml-models/NAME/VERSION/."""


@dataclass(frozen=True)
class Admission:
    """Who may ask. Keys are compared in constant time; tokens are signed with `token_secret`."""

    keys: tuple[str, ...] = ()
    """Primary, secondary. Empty: no key is asked for."""
    token_secret: str = ""
    """Not empty: signed tokens are accepted, and keys are not."""


@dataclass(frozen=True)
class ServingLimits:
    request_bytes: int = 100 << 20
    scoring_seconds: float = 60.0
    """A request that takes longer is answered 504, and the worker that hangs on it is replaced."""
    queue_seconds: float = 30.0
    """A request that no worker took for so long is answered 503 with Retry-After."""
    queued_requests: int = 1000
    """One more is answered 503 at once."""
    queued_bytes: int = 256 << 20
    memory_bytes: int = 0
    """A worker that holds more is replaced, and its log says why; 0 means most of the machine's memory."""
    init_seconds: float = 300.0


@dataclass(frozen=True)
class Scale:
    """Replicas are worker processes."""

    least: int = 1
    most: int = 1
    target_utilization: int = 70
    refresh_seconds: float = 1.0
    requests_at_once: int = 1
    """How many requests one worker works on, in threads; 1 means one after another, in its main thread."""


@dataclass(frozen=True)
class Listening:
    """Where the operator wants web services to be."""

    host: str = "127.0.0.1"
    names: tuple[str, ...] = ()
    """For the Host header; the first is the one in a scoring_uri."""
    certificate: str = ""
    private_key: str = field(default="", repr=False)
    """PEM texts for web services that have none of their own."""
    request_bytes: int = ServingLimits.request_bytes


@dataclass(frozen=True)
class VersionShare:
    """One version behind an endpoint."""

    name: str
    service_id: str
    """Of the web service that answers for it, which has no port of its own."""
    share: int
    """Of the requests, in percent; the shares of an endpoint are 100 together."""
    is_default: bool = False


@dataclass(frozen=True)
class ServiceSpec:
    """All that the gateway needs to run a web service, secrets included: it lies in a file for the owner alone."""

    id: str
    workspace: str
    name: str
    type: ServiceType
    revision: int
    """Grows when other workers are needed: another model, other code, another environment, `reload`."""
    generation: int
    """Grows with every write of the spec; a change of keys, limits or scale needs no new workers."""
    scorer: Scorer
    models: tuple[ServedModel, ...]
    environment: EnvironmentSpec
    code: tuple[FileEntry, ...] = ()
    entry_script: str = ""
    """Path in `code`, for Scorer.SCRIPT."""
    framework_version: str = ""
    """As registered, for messages."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Set in every worker: the environment's own, thread counts by cpu_cores, CUDA_VISIBLE_DEVICES."""
    build_variables: Mapping[str, str] = field(default_factory=dict)
    """Of whoever deployed it, for building its environment: PATH, proxies, indexes."""
    packages: PackageSettings = field(default_factory=PackageSettings)
    """The workspace's, for the same."""
    addresses: Mapping[str, str] = field(default_factory=dict)
    """Those with passwords, by what stands for them in `environment`."""
    port: int = 0
    """0: any free one; the one chosen is kept from then on."""
    host: str = "127.0.0.1"
    """The address that the port listens on."""
    host_names: tuple[str, ...] = ()
    """What the Host header may name beside loopback and the address itself; "*." stands for one label."""
    scoring_path: str = "/score"
    """Where scoring_uri points: /score, /api/v1/service/NAME/score or /v1/models/NAME:predict."""
    admission: Admission = Admission()
    certificate: str = ""
    private_key: str = ""
    """PEM texts. Both or neither: then the port speaks TLS."""
    limits: ServingLimits = ServingLimits()
    scale: Scale = Scale()
    schema: Mapping[str, object] = field(default_factory=dict)
    """What is known of inputs and outputs before a worker has told more."""
    versions: tuple[VersionShare, ...] = ()
    """Not empty: an endpoint. It has a port and no workers; each request goes to one of these."""
    is_version: bool = False
    """Of an endpoint: it has workers and no port."""


@dataclass(frozen=True)
class ServiceTrouble:
    problem: str
    hint: str = ""
    step: str = ""
    """files, environment, init, port or running."""
    traceback: str = ""
    logs: str = ""
    """The last lines that the worker wrote."""


@dataclass(frozen=True)
class ObservedService:
    """What the gateway last said. `version` grows with every change."""

    version: int
    generation: int
    """Of the spec that it has taken notice of."""
    revision: int
    """Of the workers that answer now; 0 before the first are ready."""
    state: ServiceState
    step: str = ""
    """Of the deployment that goes on: files, environment, init; "" when none does."""
    trouble: ServiceTrouble | None = None
    """Why the newest revision does not answer, or why nothing does any more."""
    failed_revision: int = 0
    port: int = 0
    replicas: int = 0
    wanted_replicas: int = 0
    changed_at: datetime | None = None
    notes: tuple[str, ...] = ()
    schema: Mapping[str, object] = field(default_factory=dict)
    """As told by the worker: {"input": JSON schema, "output": ..., "sample": ...} where known."""
