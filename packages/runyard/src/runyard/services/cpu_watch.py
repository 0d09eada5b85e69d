import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from types import TracebackType

LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class Used:
    """By processes, since they began."""

    cpu_seconds: float
    peak_memory_bytes: int


class CpuWatch:
    """What processes use while the block lasts; the numbers are good at its end."""

    def __init__(self, look: Callable[[], Used]) -> None:
        self._look, self._ended = look, threading.Event()
        self._thread = threading.Thread(target=self._watch, name="measuring", daemon=True)
        self.cpu_seconds, self.peak_cores, self.peak_memory_bytes = 0.0, 0.0, 0

    def __enter__(self) -> "CpuWatch":
        self._first = self._last = self._look()
        self._looked_at = monotonic()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        if error is None:
            last = self._look()
            self.cpu_seconds = max(0.0, last.cpu_seconds - self._first.cpu_seconds)
            self.peak_memory_bytes = max(self.peak_memory_bytes, last.peak_memory_bytes)

    def _watch(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            seen, now = self._look(), monotonic()
            cores = (seen.cpu_seconds - self._last.cpu_seconds) / (now - self._looked_at)
            self.peak_cores = max(self.peak_cores, cores)
            self.peak_memory_bytes = max(self.peak_memory_bytes, seen.peak_memory_bytes)
            self._last, self._looked_at = seen, now
