"""Periodic checks of a web service: memory of its workers, autoscaling, log size, port."""

import asyncio
import math
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from runyard.core.records.web_services import Scale, ServiceSpec
from runyard.serving.gateway.observation import ServiceObservation
from runyard.serving.gateway.replicas import ReplicaSet
from runyard.serving.service_log import ServiceLog
from runyard.serving.workers.process import WorkerProcess
from runyard.serving.workers.process_tree import machine_limit_bytes

_NORMAL_SECONDS, _NEAR_LIMIT_SECONDS = 1.0, 0.1
_NEAR_LIMIT_SHARE = 0.5
"""Memory is checked more often once a worker uses this share of its limit."""
_TIDY_SECONDS = 5.0


class Load(Protocol):
    @property
    def utilization(self) -> float: ...
    @property
    def depth(self) -> int: ...


class MonitoredService(Protocol):
    spec: ServiceSpec
    log: ServiceLog
    observation: ServiceObservation
    active: ReplicaSet | None

    @property
    def dispatcher(self) -> Load: ...
    def workers(self) -> list[WorkerProcess]: ...
    async def ensure_port(self) -> None: ...
    def publish(self) -> None: ...


class ServiceMonitor:
    def __init__(self, service: MonitoredService) -> None:
        self._service = service
        self._autoscale = ReplicaAutoscaler()
        self._loop = asyncio.get_running_loop()
        self._scaled_at = self._tidied_at = self._loop.time()
        self._machine_limit = machine_limit_bytes()

    async def run(self) -> None:
        """Check until cancelled."""
        is_near_limit = False
        while True:
            await asyncio.sleep(self._interval_seconds(is_near_limit))
            is_near_limit = await self._check_memory()
            if self._loop.time() - self._scaled_at >= self._service.spec.scale.refresh_seconds:
                self._scaled_at = self._loop.time()
                self._scale()
            if self._loop.time() - self._tidied_at >= _TIDY_SECONDS:
                self._tidied_at = self._loop.time()
                await self._tidy()

    def _interval_seconds(self, is_near_limit: bool) -> float:
        scale = self._service.spec.scale
        normal = min(_NORMAL_SECONDS, scale.refresh_seconds) if scale.most > scale.least else _NORMAL_SECONDS
        return max(_NEAR_LIMIT_SECONDS, 0.0 if is_near_limit else normal)

    async def _check_memory(self) -> bool:
        """Kill workers above their memory limit; return whether any is near it."""
        workers = self._service.workers()
        limit = self._service.spec.limits.memory_bytes or self._machine_limit
        held = await asyncio.to_thread(_measured, workers)
        for worker, size in zip(workers, held, strict=True):
            if size > limit:
                worker.kill(f"The worker held {size >> 20} MB of memory, more than its limit of {limit >> 20} MB.")
        return any(size > limit * _NEAR_LIMIT_SHARE for size in held)

    async def _tidy(self) -> None:
        with suppress(OSError):  # a full disk: retried at the next check
            await asyncio.to_thread(self._service.log.drop_oldest)
        self._service.observation.write()
        await self._service.ensure_port()

    def _scale(self) -> None:
        active, scale = self._service.active, self._service.spec.scale
        if active is None or scale.most <= scale.least:
            return
        dispatcher = self._service.dispatcher
        wanted = self._autoscale.wanted(scale, active.wanted, dispatcher.utilization, dispatcher.depth)
        if wanted != active.wanted:
            self._service.log.write_line(f"{wanted} replicas instead of {active.wanted}.")
            active.resize(wanted)
            self._service.publish()


def _measured(workers: list[WorkerProcess]) -> list[int]:
    return [worker.measure() for worker in workers]


_CALM_CHECKS = 10
"""Scale down only after so many checks in a row with low load: a short pause must not end workers."""


@dataclass
class ReplicaAutoscaler:
    """Computes the number of replicas from the load; counts the checks with low load."""

    calm_checks: int = 0

    def wanted(self, scale: Scale, replicas: int, utilization: float, queued: int) -> int:
        """Within the bounds of `scale`: more at once above the target or when requests wait, one fewer after a calm
        while."""
        at_target = math.ceil(replicas * utilization * 100 / max(1, scale.target_utilization))
        needed = max(at_target, replicas + 1 if queued > replicas * scale.requests_at_once else 0)
        if needed >= replicas:
            self.calm_checks = 0
            return _within(scale, needed)
        self.calm_checks += 1
        if self.calm_checks < _CALM_CHECKS:
            return _within(scale, replicas)
        self.calm_checks = 0
        return _within(scale, replicas - 1)


def _within(scale: Scale, count: int) -> int:
    return max(scale.least, min(count, scale.most), 1)
