from runyard.errors import InvalidArgument, NotFound
from runyard.model.names import check_relative_path
from runyard.model.runs import RunId
from runyard.ports.blobs import LogStore
from runyard.ports.stores import RunStore

READ_LIMIT_BYTES = 64 * 1024 * 1024


class Logs:
    def __init__(self, runs: RunStore, logs: LogStore) -> None:
        self._runs, self._logs = runs, logs

    def sizes(self, run_id: RunId) -> dict[str, int]:
        self._runs.get(run_id)
        return self._logs.sizes(run_id)

    def append(self, run_id: RunId, path: str, offset: int, data: bytes) -> int:
        """Bytes already there are skipped, a gap is Conflict; returns the new end."""
        self._runs.get(run_id)
        if offset < 0:
            raise InvalidArgument(f"offset must be at least 0, got {offset}.")
        return self._logs.append(run_id, check_relative_path(path, "log path"), offset, data)

    def read(self, run_id: RunId, path: str, offset: int, limit: int | None) -> bytes:
        """At most 64 MB from `offset`; a negative offset counts from the end."""
        path = check_relative_path(path, "log path")
        size = self.sizes(run_id).get(path)
        if size is None:
            raise NotFound(f"Run {run_id} has no log {path!r}.")
        start = max(0, size + offset) if offset < 0 else offset
        return self._logs.read(run_id, path, start, min(READ_LIMIT_BYTES, READ_LIMIT_BYTES if limit is None else limit))
