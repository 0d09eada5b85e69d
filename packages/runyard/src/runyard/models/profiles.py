import math
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from http.client import HTTPConnection, HTTPException
from itertools import islice
from time import perf_counter
from typing import Any

from runyard.access.authorization import Access
from runyard.assets.workspaces import Workspaces
from runyard.core.definitions.deployment import DeploymentSpec
from runyard.core.errors import EnvironmentFailed, InvalidArgument, TooLarge, Unreachable
from runyard.core.names import check_asset_name
from runyard.core.policy import Action
from runyard.core.ports.serving import ServiceHost
from runyard.core.ports.stores import AssetStore
from runyard.core.principal import Principal
from runyard.core.records.assets import AssetKind
from runyard.core.records.web_services import ObservedService, ServiceAuth, ServiceSpec, ServiceType
from runyard.data.datasets.dataset_registry import Datasets
from runyard.models.background_work import BackgroundWork, WorkRecord, WriteLine
from runyard.models.packages import Plan
from runyard.models.process_usage import ProcessUsage, UsageMonitor
from runyard.storage.blobs.content import FileContent

SampleLines = Callable[[Principal, str, str], Iterator[bytes]]
"""Callback: caller, workspace, dataset id -> lines of its files."""

MOST_ROWS = 10_000
MOST_BYTES = 256 << 20
LEAST_REQUESTS = 200
MEASURED_SECONDS = 30.0
POLL_SECONDS = 10.0
GIGABYTE = 1 << 30
ROOM_ABOVE_PEAK = 1.25
ID_PREFIX = "profile-"


@dataclass(frozen=True)
class NewProfile:
    name: str
    spec: DeploymentSpec
    """Models, script and submitter."""
    rows: Sequence[str] = ()
    """Request bodies; without them, each line of the dataset's files is one."""
    dataset_id: str = ""
    cpu: float | None = None
    memory_in_gb: float | None = None
    description: str = ""


class Profiles:
    """Measures CPU, memory and latency of models: deploys each on a private port and sends requests one by one."""

    def __init__(
        self,
        assets: AssetStore,
        workspaces: Workspaces,
        access: Access,
        host: ServiceHost,
        plan: Plan,
        sample_lines: SampleLines,
    ) -> None:
        self._workspaces, self._host, self._plan, self._sample_lines = workspaces, host, plan, sample_lines
        # One at a time: parallel profiles would disturb each other.
        self._work = BackgroundWork(assets, access, AssetKind.PROFILE, "profile", at_once=1)

    def create(self, who: Principal, workspace: str, new: NewProfile) -> WorkRecord:
        """Start measuring. A finished profile of that name is replaced. Raises as a deployment does."""
        self._workspaces.enter(who, Action.DEPLOY, workspace)
        check_asset_name(AssetKind.PROFILE, new.name)
        config = {"cpu_cores": new.cpu, "memory_gb": new.memory_in_gb}
        given = {name: value for name, value in config.items() if value is not None}
        asked = replace(new.spec, type=ServiceType.ACI, config=given)
        spec = _private_spec(self._plan(who, workspace, ID_PREFIX + "measured", asked))
        bodies = self._bodies(who, workspace, new)
        body = {
            "models": [f"{model.name}:{model.version}" for model in spec.models],
            "description": new.description,
            "dataset_id": new.dataset_id,
            "cpu": new.cpu,
            "memory_in_gb": new.memory_in_gb,
            "results": None,
        }
        return self._work.begin(
            who, workspace, new.name, body, lambda log_line: {"results": self._measure(spec, bodies, log_line)}
        )

    def get(self, who: Principal, workspace: str, name: str) -> WorkRecord:
        self._workspaces.enter(who, Action.READ_ASSET, workspace)
        return self._work.get(workspace, name)

    def wait(self, who: Principal, workspace: str, name: str, revision: int, seconds: float) -> WorkRecord:
        self._workspaces.enter(who, Action.READ_ASSET, workspace)
        return self._work.wait(workspace, name, revision, seconds)

    def fail_interrupted(self) -> None:
        """Call it once, at the start of the service."""
        self._work.fail_interrupted()

    def _bodies(self, who: Principal, workspace: str, new: NewProfile) -> list[bytes]:
        if not new.rows and not new.dataset_id:
            raise InvalidArgument("input_dataset is missing.", hint="Give a dataset with one request body a row.")
        lines = (row.encode() for row in new.rows) if new.rows else self._sample_lines(who, workspace, new.dataset_id)
        bodies = [line for line in islice(lines, MOST_ROWS) if line.strip()]
        if not bodies:
            raise InvalidArgument("input_dataset holds no rows.", hint="Give it one request body a row.")
        if sum(map(len, bodies)) > MOST_BYTES:
            raise TooLarge(f"input_dataset holds more than {MOST_BYTES >> 20} MB.", hint="Take fewer rows.")
        return bodies

    def _measure(self, spec: ServiceSpec, bodies: Sequence[bytes], log_line: WriteLine) -> dict[str, Any]:
        self._host.apply(spec)
        try:
            port = self._ready(spec.id).port
            log_line(f"Asking with {len(bodies)} bodies.")
            with UsageMonitor(lambda: self._used(spec.id)) as watch:
                timed = time_requests(
                    port, spec.scoring_path, bodies, least=LEAST_REQUESTS, within_seconds=MEASURED_SECONDS
                )
            return _results(timed, watch)
        finally:
            self._host.remove(spec.id)

    def _ready(self, service_id: str) -> ObservedService:
        seen = self._host.observe(service_id)
        while seen is None or not seen.revision:
            if seen is not None and seen.failed_revision:
                failure = seen.trouble
                facts = {"traceback": failure.traceback, "logs": failure.logs, "step": failure.step} if failure else {}
                problem = failure.problem if failure else "The model could not be deployed."
                raise EnvironmentFailed(problem, hint=failure.hint if failure else "", **facts)
            seen = self._host.wait(service_id, seen.version if seen else 0, POLL_SECONDS)
        return seen

    def _used(self, service_id: str) -> ProcessUsage:
        replicas = self._host.metrics(service_id).get("replicas") or ()
        return ProcessUsage(
            cpu_seconds=sum(float(one.get("cpu_seconds") or 0) for one in replicas),
            peak_memory_bytes=max((int(one.get("peak_memory_bytes") or 0) for one in replicas), default=0),
        )


def _private_spec(spec: ServiceSpec) -> ServiceSpec:
    """The same spec under an id of its own, without keys, on loopback only, whatever the operator has set."""
    named = replace(spec, id=ID_PREFIX + uuid.uuid4().hex, revision=1, generation=1)
    plain = replace(named, host="127.0.0.1", host_names=(), certificate="", private_key="", admission=ServiceAuth())
    return replace(plain, port=0, scale=replace(spec.scale, least=1, most=1))


@dataclass(frozen=True)
class RequestTimings:
    milliseconds: Sequence[float]
    """Latencies of successful requests, in the order of sending."""
    failures: Sequence[str]
    seconds: float

    @property
    def count(self) -> int:
        return len(self.milliseconds) + len(self.failures)

    def latency(self) -> dict[str, float]:
        """Average, percentiles and maximum; empty when no request was successful."""
        ordered = sorted(self.milliseconds)
        if not ordered:
            return {}
        ranked = {name: ordered[_rank(share, len(ordered))] for name, share in PER_MILLE.items()}
        return {"average": sum(ordered) / len(ordered), **ranked, "max": ordered[-1]}


def _results(timed: RequestTimings, watch: UsageMonitor) -> dict[str, Any]:
    cores = watch.cpu_seconds / timed.seconds
    return {
        "requests": timed.count,
        "succeeded": len(timed.milliseconds),
        "failed": len(timed.failures),
        "first_failure": timed.failures[0] if timed.failures else "",
        "success_rate": 100.0 * len(timed.milliseconds) / timed.count,
        "seconds": timed.seconds,
        "queries_per_second": timed.count / timed.seconds,
        "latency_ms": timed.latency(),
        "peak_memory_bytes": watch.peak_memory_bytes,
        "cpu_seconds": watch.cpu_seconds,
        "average_cpu": cores,
        "peak_cpu": max(cores, watch.peak_cores),
        "recommended_cpu": _round_up_to_tenths(cores),
        "recommended_memory_in_gb": _round_up_to_tenths(watch.peak_memory_bytes * ROOM_ABOVE_PEAK / GIGABYTE),
    }


def _round_up_to_tenths(value: float) -> float:
    """Round up to tenths, at least 0.1."""
    return max(1, math.ceil(value * 10)) / 10


PER_MILLE = {"p50": 500, "p90": 900, "p95": 950, "p99": 990, "p99_9": 999}
ANSWER_SECONDS = 120.0
SHOWN_CHARACTERS = 500


def time_requests(
    port: int, path: str, bodies: Sequence[bytes], *, least: int, within_seconds: float
) -> RequestTimings:
    """Send each body once, and repeat them until `least` requests are sent or the time is over.

    The first body is sent once before, unmeasured: libraries load code on first use. Raises Unreachable.
    """
    connection = HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)
    milliseconds, failures = [], []
    try:
        _send(connection, path, bodies[0])
        began = perf_counter()
        for number in range(max(least, len(bodies))):
            if perf_counter() - began > within_seconds:
                break
            sent = perf_counter()
            status, answer = _send(connection, path, bodies[number % len(bodies)])
            took = (perf_counter() - sent) * 1000
            if status < 400:
                milliseconds.append(took)
            else:
                failures.append(f"{status}: {answer[:SHOWN_CHARACTERS].decode('utf-8', 'replace')}")
        return RequestTimings(milliseconds, failures, perf_counter() - began)
    except (OSError, HTTPException) as error:
        raise Unreachable(f"The model did not answer: {error or type(error).__name__}.") from error
    finally:
        connection.close()


def _send(connection: HTTPConnection, path: str, body: bytes) -> tuple[int, Any]:
    connection.request("POST", path, body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    return answer.status, answer.read()


def _rank(per_mille: int, count: int) -> int:
    """Index of a percentile in a sorted list; in per mille, since a float cannot hold 99.9 exactly."""
    return max(0, -(-per_mille * count // 1000) - 1)


LONGEST_LINE_BYTES = 64 << 20


class DatasetLines:
    """Reads the lines of a dataset's files."""

    def __init__(self, datasets: Datasets) -> None:
        self._datasets = datasets

    def read(self, who: Principal, workspace: str, dataset_id: str) -> Iterator[bytes]:
        """Yield lines without line ends, file by file. Raises NotFound, and the errors of its datastore."""
        dataset = self._datasets.get(who, workspace, dataset_id)
        for file in self._datasets.resolve_saved_now(who, dataset, {}).resolved.files:
            yield from _lines(_pieces(self._datasets.open(who, workspace, dataset_id, file.source.path)))


def _pieces(content: FileContent) -> Iterator[bytes]:
    if content.path is not None:
        with content.path.open("rb") as opened:
            while piece := opened.read(1 << 20):
                yield piece
    elif content.pieces is not None:
        yield from content.pieces()
    elif content.part is not None:
        yield from map(bytes, content.part(0, content.size))


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        yield from (line.rstrip(b"\r") for line in whole)
        if len(rest) > LONGEST_LINE_BYTES:
            break
    if rest:
        yield rest
