"""Periodic checks of a web service: memory of its workers, autoscaling, log size, port."""

import asyncio
from contextlib import suppress
from typing import Protocol

from runyard.model.web_services import ServiceSpec
from runyard.serving.log_file import ServiceLog
from runyard.serving.observation import Observation
from runyard.serving.workers.memory import machine_limit_bytes
from runyard.serving.workers.process import WorkerProcess
from runyard.serving.workers.replicas import ReplicaSet
from runyard.serving.workers.scaling import Autoscale

_NORMAL_SECONDS, _NEAR_LIMIT_SECONDS = 1.0, 0.1
_NEAR_LIMIT_SHARE = 0.5
"""Memory is checked more often once a worker uses this share of its limit."""
_TIDY_SECONDS = 5.0


class Load(Protocol):
    @property
    def utilization(self) -> float: ...
    @property
    def depth(self) -> int: ...


class Watched(Protocol):
    spec: ServiceSpec
    log: ServiceLog
    observation: Observation
    active: ReplicaSet | None

    @property
    def dispatcher(self) -> Load: ...
    def workers(self) -> list[WorkerProcess]: ...
    async def ensure_port(self) -> None: ...
    def publish(self) -> None: ...


class Watch:
    def __init__(self, service: Watched) -> None:
        self._service = service
        self._autoscale = Autoscale()
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
            self._service.log.say(f"{wanted} replicas instead of {active.wanted}.")
            active.resize(wanted)
            self._service.publish()


def _measured(workers: list[WorkerProcess]) -> list[int]:
    return [worker.measure() for worker in workers]
