from runyard.core.policy import Action
from runyard.core.principal import Principal, Role
from runyard.errors import InvalidArgument, NotFound
from runyard.model.names import check_relative_path
from runyard.model.runs import RunId, RunRecord
from runyard.ports.blobs import LogStore
from runyard.services.access import Access

READ_LIMIT_BYTES = 64 * 1024 * 1024
LOG_STARTS = "log_starts"
"""Exit fact of a restarted run: length of each log when its present attempt began."""


class Logs:
    def __init__(self, logs: LogStore, access: Access) -> None:
        self._logs, self._access = logs, access

    def sizes(self, who: Principal, run_id: RunId) -> dict[str, int]:
        """Length of each log. A node gets the length that the present attempt has sent."""
        run = self._access.run(who, Action.SEE_DELIVERED, run_id)
        sizes = self._logs.sizes(run_id)
        if who.role is Role.NODE:
            return {path: size - _start(run, path) for path, size in sizes.items()}
        return sizes

    def append(self, who: Principal, run_id: RunId, path: str, offset: int, data: bytes) -> int:
        """Append to a log; return its new length. Bytes already stored are skipped. Raises Conflict for a gap.

        Offsets count from where the present attempt began: its log follows that of the attempt before.
        """
        run = self._access.run(who, Action.DELIVER_RUN, run_id)
        if offset < 0:
            raise InvalidArgument(f"offset must be at least 0, got {offset}.")
        start = _start(run, check_relative_path(path, "log path"))
        return self._logs.append(run_id, path, start + offset, data) - start

    def read(self, who: Principal, run_id: RunId, path: str, offset: int, limit: int | None) -> tuple[int, bytes]:
        """Return (start, data): at most 64 MiB from `offset` on; a negative offset counts from the end."""
        self._access.run(who, Action.SEE_DELIVERED, run_id)
        path = check_relative_path(path, "log path")
        size = self._logs.sizes(run_id).get(path)
        if size is None:
            raise NotFound(f"Run {run_id} has no log {path!r}.")
        start = max(0, size + offset) if offset < 0 else offset
        most = READ_LIMIT_BYTES if limit is None else min(READ_LIMIT_BYTES, limit)
        return start, self._logs.read(run_id, path, start, most)


def _start(run: RunRecord, path: str) -> int:
    starts = (run.exit_facts or {}).get(LOG_STARTS) or {}
    return int(starts.get(path, 0))
