import asyncio
from contextlib import suppress
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any

from runyard.core.records.web_services import ObservedService, ServiceFailure, ServiceState
from runyard.serving.service_folder import ServiceFolder

_LONGEST_TEXT = 64_000
"""Limit for each text of a trouble: it is part of every record and goes through the gateway's socket."""
_NOTHING_YET = ObservedService(version=0, generation=0, revision=0, state=ServiceState.TRANSITIONING)


class ServiceObservation:
    """Observed state of one web service: stored in its folder; wakes those who wait for a change."""

    def __init__(self, folder: ServiceFolder) -> None:
        self._folder = folder
        self.now = folder.state() or _NOTHING_YET
        self._is_written, self._written_port = True, self.now.port
        self._changed = asyncio.Event()

    def change(self, **changes: Any) -> None:
        """Store changed fields under the next version number. Does nothing when all are equal."""
        changed = replace(self.now, **changes)
        if changed.trouble is not None:
            changed = replace(changed, trouble=_truncated(changed.trouble))
        if changed == self.now:
            return
        self.now = replace(changed, version=self.now.version + 1, changed_at=datetime.now(UTC))
        self._is_written = False
        self.write()
        self._changed.set()
        self._changed = asyncio.Event()

    def write(self) -> None:
        """Write what is not on disk yet. On a full disk it is retried at the next call."""
        if not self._is_written:
            with suppress(OSError):
                # Clients know the port as part of the address, so it must survive a power cut.
                self._folder.write_state(self.now, durable=self.now.port != self._written_port)
                self._is_written, self._written_port = True, self.now.port

    async def after(self, version: int, seconds: float) -> ObservedService:
        """The state, once its version is above the given one, or when the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.now.version <= version:
                    await self._changed.wait()
        return self.now


def _truncated(failure: ServiceFailure) -> ServiceFailure:
    return ServiceFailure(**{field.name: _keep_both_ends(getattr(failure, field.name)) for field in fields(failure)})


def _keep_both_ends(text: str) -> str:
    if len(text) <= _LONGEST_TEXT:
        return text
    half = _LONGEST_TEXT // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters are left out here ...\n{text[-half:]}"
