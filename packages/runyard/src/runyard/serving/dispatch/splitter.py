"""The versions of an endpoint behind one port."""

from collections.abc import Callable
from typing import Any

from runyard.model.web_services import ServiceSpec, VersionShare
from runyard.serving.dispatch.byte_room import ByteRoom
from runyard.serving.dispatch.dispatcher import Dispatcher
from runyard.serving.dispatch.request import Refusal, ScoringRequest
from runyard.serving.dispatch.request_metrics import RequestMetrics
from runyard.serving.worker_link import WorkerFacts

FindDispatcher = Callable[[str], Dispatcher | None]
"""By the id of a version's web service; None where it is not there (yet, or any more)."""
VERSION_FIELD = "azureml-model-deployment"


class _Version:
    """`credit` is how much of its share it has not had yet."""

    __slots__ = ("credit", "dispatcher", "field", "id", "is_default", "name", "share")

    def __init__(self, told: VersionShare, credit: int) -> None:
        self.id, self.name, self.share, self.is_default = told.service_id, told.name, told.share, told.is_default
        self.field = f"{VERSION_FIELD}: {told.name}\r\n".encode("ascii", "ignore")
        self.credit = credit
        self.dispatcher: Dispatcher | None = None


class Splitter:
    """Gives each request to the dispatcher of one version, as their shares are. All of it happens in the running loop.

    After any number of requests each version has had its share of them to within one request or two: none is chosen by
    chance. What a version that has no worker would get is shared by the others; where none has one, requests go to the
    default version, and wait or are refused there.
    """

    def __init__(self, spec: ServiceSpec, find: FindDispatcher) -> None:
        self._find = find
        self._versions: list[_Version] = []
        self._outage, self._closed_because = "", ""
        self.room = ByteRoom(spec.limits.queued_bytes)
        self.unsent = ByteRoom(spec.limits.queued_bytes)
        self.requests = RequestMetrics()
        """Of requests that no version got."""
        self.reconfigure(spec)

    def reconfigure(self, spec: ServiceSpec) -> None:
        """The new shares count from the next request on."""
        self.room.limit = self.unsent.limit = spec.limits.queued_bytes
        credits = {version.id: version.credit for version in self._versions}
        self._versions = [_Version(told, credits.get(told.service_id, 0)) for told in spec.versions]

    @property
    def is_served(self) -> bool:
        return any(version.share and self._is_served(version) for version in self._versions)

    @property
    def facts(self) -> WorkerFacts | None:
        """Of the default version."""
        default = self._default()
        return default.dispatcher.facts if default is not None and default.dispatcher is not None else None

    @property
    def depth(self) -> int:
        return sum(dispatcher.depth for dispatcher in self._dispatchers().values())

    @property
    def utilization(self) -> float:
        """It has no workers that could be more or fewer."""
        return 0.0

    def metrics(self) -> dict[str, Any]:
        """Of all versions together, and of each under its name."""
        dispatchers = self._dispatchers()
        return {
            **self._together().summary(),
            "queued": self.depth,
            "in_work": sum(dispatcher.in_work for dispatcher in dispatchers.values()),
            "versions": {name: dispatcher.metrics() for name, dispatcher in dispatchers.items()},
        }

    def figures(self) -> dict[str, Any]:
        """As Dispatcher.figures, of all versions together."""
        return {**self._together().figures(), "queued": self.depth}

    def _together(self) -> RequestMetrics:
        total = RequestMetrics()
        for one in (self.requests, *(dispatcher.requests for dispatcher in self._dispatchers().values())):
            total.merge(one)
        return total

    def set_outage(self, problem: str | None) -> None:
        """What is heard while no version is there at all."""
        self._outage = problem or ""

    def close(self, why: str) -> None:
        """Every request that comes later is refused."""
        self._closed_because = why

    def submit(self, request: ScoringRequest) -> None:
        version = None if self._closed_because else self._chosen()
        if version is None or version.dispatcher is None:
            request.is_over = True
            self.requests.count(503)
            request.refused(Refusal(503, self._closed_because or self._outage or "No version is ready yet.", 1))
            return
        request.taker = version
        version.dispatcher.submit(request)

    def drop(self, request: ScoringRequest) -> None:
        """As Dispatcher.drop."""
        if isinstance(request.taker, _Version) and request.taker.dispatcher is not None:
            request.taker.dispatcher.drop(request)

    def _chosen(self) -> _Version | None:
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
