import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress

from runyard.core.errors import RunyardError
from tests.data.transfers.memory_store import MemoryStore


class ManyStore(MemoryStore):
    """A store in memory that gives many at once; `batches` holds what was asked for so, `refused` never comes so."""

    def __init__(self, files: dict[str, bytes], *, identity: str = "memory:") -> None:
        super().__init__(files, identity=identity)
        self.batches: list[list[str]] = []
        self.refused: set[str] = set()
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.has_asked = threading.Semaphore(0)

    @property
    def asked_together(self) -> list[str]:
        return [path for batch in self.batches for path in batch]

    def read_many(self, files: Sequence[tuple[str, int, str]]) -> Iterator[tuple[int, memoryview]]:
        self.batches.append([path for path, _, _ in files])
        self.has_asked.release()
        self.may_answer.wait()
        for number, (path, size, etag) in enumerate(files):
            with suppress(RunyardError):
                if path not in self.refused and self.stat(path).etag == etag:
                    yield number, memoryview(self.damaged(self.content(path)[:size]))
