"""Prometheus text format. Imported at the first scrape, because prometheus_client is slow to import."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily as Count
from prometheus_client.core import GaugeMetricFamily as Gauge
from prometheus_client.core import HistogramMetricFamily as Histogram
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from runyard.core.version import VERSION, WIRE
from runyard.server.metrics.counters import OTHER, RequestCounters

if TYPE_CHECKING:
    from runyard.server.metrics.server_metrics import ServerMetrics

_MAX_QUEUES, _MAX_WEB_SERVICES = 500, 500
"""Limits of labels whose values users choose."""


def render_prometheus(metrics: "ServerMetrics", requests: RequestCounters) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_ServerCollector(metrics, requests))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


class _ServerCollector(Collector):
    def __init__(self, metrics: "ServerMetrics", requests: RequestCounters) -> None:
        self._metrics, self._requests = metrics, requests

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        parts: dict[str, Callable[[], Iterable[Metric]]] = {
            "info": self._info,
            "requests": self._answered,
            "database": self._database,
            "runs": self._runs,
            "phases": self._phases,
            "disk": self._disk,
            "web services": self._web_services,
        }
        for name, part in parts.items():
            try:
                yield from list(part())
            except Exception as problem:  # a part that fails must not hide the others
                self._metrics.failed(name, problem)
        errors = Count("runyard_scrape_errors", "Parts that a scrape had to leave out.", labels=["part"])
        for name in parts:
            errors.add_metric([name], self._metrics.errors[name])
        yield errors

    def _info(self) -> Iterator[Metric]:
        kind = "sqlite" if self._metrics.database.is_sqlite else "postgresql"
        info = Gauge("runyard_info", "Always 1.", labels=["version", "wire", "database"])
        info.add_metric([VERSION, str(WIRE), kind], 1)
        yield info

    def _answered(self) -> Iterator[Metric]:
        labels = ["method", "route"]
        answers = Count("runyard_http_requests", "Answered requests.", labels=[*labels, "status"])
        for (method, route, status), count in self._requests.answers():
            answers.add_metric([method, route, str(status)], count)
        yield answers
        seconds = Histogram("runyard_http_request_seconds", "From a request to its answer's end.", labels=labels)
        for key, histogram in self._requests.seconds():
            seconds.add_metric(list(key), histogram.buckets(), histogram.sum)
        yield seconds

    def _database(self) -> Iterator[Metric]:
        metrics = self._metrics
        yield Gauge("runyard_database_ping_seconds", "One small question.", value=metrics.ping_seconds())
        yield Gauge("runyard_database_bytes", "Size of the database.", value=metrics.database_bytes())

    def _runs(self) -> Iterator[Metric]:
        metrics = self._metrics
        yield Count("runyard_points_stored", "Points of metrics since the start.", value=metrics.runs.points)
        ended = Count("runyard_runs_ended", "Ends of runs since the start.", labels=["state"])
        for status in ("Completed", "Failed", "Canceled"):
            ended.add_metric([status], metrics.runs.ended[status])
        yield ended
        tally = metrics.tally()
        states = Gauge("runyard_runs", "Runs by state.", labels=["state"])
        for status, count in tally.by_status.items():
            states.add_metric([status], count)
        yield states
        labels, now = ["workspace", "compute"], metrics.database.now()
        length = Gauge("runyard_queue_length", "Runs that wait for a compute target.", labels=labels)
        oldest = Gauge("runyard_queue_oldest_seconds", "Since the first of them was submitted.", labels=labels)
        for queue in tally.queues[:_MAX_QUEUES]:
            length.add_metric([queue.workspace, queue.compute], queue.length)
            waited = max(0.0, (now - queue.oldest).total_seconds())
            oldest.add_metric([queue.workspace, queue.compute], waited)
        if rest := tally.queues[_MAX_QUEUES:]:
            length.add_metric(["", OTHER], sum(queue.length for queue in rest))
        yield length
        yield oldest

    def _phases(self) -> Iterator[Metric]:
        self._metrics.count_phases()
        phases = Histogram("runyard_run_phase_seconds", "How long ended runs were in a state.", labels=["phase"])
        for phase, histogram in list(self._metrics.runs.phases.items()):
            phases.add_metric([phase], histogram.buckets(), histogram.sum)
        yield phases

    def _disk(self) -> Iterator[Metric]:
        free, whole = self._metrics.disk_bytes()
        yield Gauge("runyard_home_free_bytes", "Free on the disk of the home.", value=free)
        yield Gauge("runyard_home_size_bytes", "Size of the disk of the home.", value=whole)

    def _web_services(self) -> Iterator[Metric]:
        services = self._metrics.web_services()
        if services is None:
            yield Gauge("runyard_gateway_up", "Whether the gateway of web services answers.", value=0)
            return
        if not services:
            return
        yield Gauge("runyard_gateway_up", "Whether the gateway of web services answers.", value=1)
        labels = ["workspace", "service"]
        requests = Count("runyard_web_service_requests", "Answers of a web service.", labels=[*labels, "status"])
        seconds = Histogram("runyard_web_service_seconds", "How long scoring took.", labels=labels)
        replicas = Gauge("runyard_web_service_replicas", "Replicas by state.", labels=[*labels, "state"])
        queued = Gauge("runyard_web_service_queued", "Requests that wait for a replica.", labels=labels)
        for service in services[:_MAX_WEB_SERVICES]:
            _add_service(service, requests, seconds, replicas, queued)
        yield from (requests, seconds, replicas, queued)


def _add_service(service: Any, requests: Count, seconds: Histogram, replicas: Gauge, queued: Gauge) -> None:
    key = [service["workspace"], service["name"]]
    for status, count in service["requests"].items():
        requests.add_metric([*key, status], count)
    buckets = [(str(bound), float(count)) for bound, count in service["seconds"]["buckets"]]
    seconds.add_metric(key, buckets, service["seconds"]["sum"])
    for state, count in service["replicas"].items():
        replicas.add_metric([*key, state], count)
    queued.add_metric(key, service["queued"])
