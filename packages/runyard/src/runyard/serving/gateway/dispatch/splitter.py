"""Splits the requests of an endpoint among its versions."""

from collections.abc import Callable
from typing import Any

from runyard.core.records.web_services import ServiceSpec, VersionShare
from runyard.serving.gateway.dispatch.dispatcher import ByteBudget, Dispatcher
from runyard.serving.gateway.dispatch.request import Refusal, ScoringRequest
from runyard.serving.gateway.dispatch.request_statistics import RequestStatistics
from runyard.serving.workers.link import WorkerFacts

FindDispatcher = Callable[[str], Dispatcher | None]
"""Callback: service id -> its dispatcher; None if not loaded."""
VERSION_FIELD = "azureml-model-deployment"


class _Version:
    """`credit` is the part of its share that it has not received yet."""

    __slots__ = ("credit", "dispatcher", "field", "id", "is_default", "name", "share")

    def __init__(self, given: VersionShare, credit: int) -> None:
        self.id, self.name, self.share, self.is_default = given.service_id, given.name, given.share, given.is_default
        self.field = f"{VERSION_FIELD}: {given.name}\r\n".encode("ascii", "ignore")
        self.credit = credit
        self.dispatcher: Dispatcher | None = None


class Splitter:
    """Passes each request to the dispatcher of one version, by weighted round robin. Runs in the event loop.

    After any number of requests each version has received its share, give or take two requests; nothing is random. The
    share of a version without workers goes to the others. Without any worker, requests go to the default version, which
    queues or refuses them.
    """

    def __init__(self, spec: ServiceSpec, find: FindDispatcher) -> None:
        self._find = find
        self._versions: list[_Version] = []
        self._outage, self._closed_because = "", ""
        self.request_budget = ByteBudget(spec.limits.queued_bytes)
        self.unsent = ByteBudget(spec.limits.queued_bytes)
        self.requests = RequestStatistics()
        """Counts requests that no version received."""
        self.reconfigure(spec)

    def reconfigure(self, spec: ServiceSpec) -> None:
        """Apply new shares from the next request on."""
        self.request_budget.limit = self.unsent.limit = spec.limits.queued_bytes
        credits = {version.id: version.credit for version in self._versions}
        self._versions = [_Version(one, credits.get(one.service_id, 0)) for one in spec.versions]

    @property
    def is_served(self) -> bool:
        return any(version.share and self._is_served(version) for version in self._versions)

    @property
    def facts(self) -> WorkerFacts | None:
        """Worker facts of the default version; None if it has none."""
        default = self._default()
        return default.dispatcher.facts if default is not None and default.dispatcher is not None else None

    @property
    def depth(self) -> int:
        return sum(dispatcher.depth for dispatcher in self._dispatchers().values())

    @property
    def utilization(self) -> float:
        """Always 0: it has no workers to scale."""
        return 0.0

    def metrics(self) -> dict[str, Any]:
        """Totals of all versions, and the metrics of each by its name."""
        dispatchers = self._dispatchers()
        return {
            **self._total().summary(),
            "queued": self.depth,
            "in_work": sum(dispatcher.in_work for dispatcher in dispatchers.values()),
            "versions": {name: dispatcher.metrics() for name, dispatcher in dispatchers.items()},
        }

    def figures(self) -> dict[str, Any]:
        """Totals of all versions; see Dispatcher.figures."""
        return {**self._total().figures(), "queued": self.depth}

    def _total(self) -> RequestStatistics:
        total = RequestStatistics()
        for one in (self.requests, *(dispatcher.requests for dispatcher in self._dispatchers().values())):
            total.merge(one)
        return total

    def set_outage(self, problem: str | None) -> None:
        """Message for requests while no version is loaded."""
        self._outage = problem or ""

    def close(self, why: str) -> None:
        """Refuse every later request."""
        self._closed_because = why

    def submit(self, request: ScoringRequest) -> None:
        version = None if self._closed_because else self._choose()
        if version is None or version.dispatcher is None:
            request.is_over = True
            self.requests.count(503)
            request.refused(Refusal(503, self._closed_because or self._outage or "No version is ready yet.", 1))
            return
        request.assigned_version = version
        version.dispatcher.submit(request)

    def drop(self, request: ScoringRequest) -> None:
        """See Dispatcher.drop."""
        version = request.assigned_version
        if isinstance(version, _Version) and version.dispatcher is not None:
            version.dispatcher.drop(request)

    def _choose(self) -> _Version | None:
        best, total = None, 0
        for version in self._versions:
            if version.share and self._is_served(version):
                total += version.share
                version.credit += version.share
                if best is None or version.credit > best.credit:
                    best = version
        if best is None:
            return self._default()
        best.credit -= total
        return best

    def _is_served(self, version: _Version) -> bool:
        version.dispatcher = self._find(version.id)
        return version.dispatcher is not None and version.dispatcher.is_served

    def _default(self) -> _Version | None:
        for version in self._versions:
            if version.is_default:
                version.dispatcher = self._find(version.id)
                return version
        return None

    def _dispatchers(self) -> dict[str, Dispatcher]:
        found = {version.name: self._find(version.id) for version in self._versions}
        return {name: dispatcher for name, dispatcher in found.items() if dispatcher is not None}
