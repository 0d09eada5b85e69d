import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from types import TracebackType

SAMPLE_SECONDS = 0.5


@dataclass(frozen=True)
class ProcessUsage:
    """Resources that processes have used since they started."""

    cpu_seconds: float
    peak_memory_bytes: int


class UsageMonitor:
    """Measures what processes use during the block; the numbers are valid after it."""

    def __init__(self, read: Callable[[], ProcessUsage]) -> None:
        self._read, self._ended = read, threading.Event()
        self._thread = threading.Thread(target=self._watch, name="measuring", daemon=True)
        self.cpu_seconds, self.peak_cores, self.peak_memory_bytes = 0.0, 0.0, 0

    def __enter__(self) -> "UsageMonitor":
        self._first = self._last = self._read()
        self._read_at = monotonic()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        if error is None:
            last = self._read()
            self.cpu_seconds = max(0.0, last.cpu_seconds - self._first.cpu_seconds)
            self.peak_memory_bytes = max(self.peak_memory_bytes, last.peak_memory_bytes)

    def _watch(self) -> None:
        while not self._ended.wait(SAMPLE_SECONDS):
            seen, now = self._read(), monotonic()
            cores = (seen.cpu_seconds - self._last.cpu_seconds) / (now - self._read_at)
            self.peak_cores = max(self.peak_cores, cores)
            self.peak_memory_bytes = max(self.peak_memory_bytes, seen.peak_memory_bytes)
            self._last, self._read_at = seen, now
