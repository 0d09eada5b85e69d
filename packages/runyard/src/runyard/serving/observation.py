import asyncio
from contextlib import suppress
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any

from runyard.model.web_services import ObservedService, ServiceState, ServiceTrouble
from runyard.serving.folder import ServiceFolder

_LONGEST_TEXT = 64_000
"""Of each part of a trouble. It goes into every record, and through the gateway's socket."""
_NOTHING_YET = ObservedService(version=0, generation=0, revision=0, state=ServiceState.TRANSITIONING)


class Observation:
    """What the gateway says of one web service: kept in its folder, and told to those who wait for news."""

    def __init__(self, folder: ServiceFolder) -> None:
        self._folder = folder
        self.now = folder.state() or _NOTHING_YET
        self._is_written, self._written_port = True, self.now.port
        self._changed = asyncio.Event()

    def change(self, **news: Any) -> None:
        """Nothing happens where all is as it was."""
        changed = replace(self.now, **news)
        if changed.trouble is not None:
            changed = replace(changed, trouble=_shortened(changed.trouble))
        if changed == self.now:
            return
        self.now = replace(changed, version=self.now.version + 1, changed_at=datetime.now(UTC))
        self._is_written = False
        self.write()
        self._changed.set()
        self._changed = asyncio.Event()

    def write(self) -> None:
        """Write what is not yet on disk. A full disk leaves it for the next time."""
        if not self._is_written:
            with suppress(OSError):
                # Its port is part of its address: that one outlives a power cut too.
                self._folder.write_state(self.now, durable=self.now.port != self._written_port)
                self._is_written, self._written_port = True, self.now.port

    async def after(self, version: int, seconds: float) -> ObservedService:
        """As it is once its version is above that one, or the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.now.version <= version:
                    await self._changed.wait()
        return self.now


def _shortened(trouble: ServiceTrouble) -> ServiceTrouble:
    return ServiceTrouble(**{field.name: _both_ends(getattr(trouble, field.name)) for field in fields(trouble)})


def _both_ends(text: str) -> str:
    if len(text) <= _LONGEST_TEXT:
        return text
    half = _LONGEST_TEXT // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters are left out here ...\n{text[-half:]}"
