import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from runyard.access.authorization import Access
from runyard.core.definitions.run import RunDefinition
from runyard.core.errors import InvalidArgument, NotFound
from runyard.core.names import check_relative_path
from runyard.core.policy import Action
from runyard.core.ports.blobs import LogStore
from runyard.core.principal import Principal, Role
from runyard.core.records.runs import RunId, RunRecord
from runyard.runs.launch.distribution import DistributionKind, distribution_kind, distribution_of

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


_DRIVER_LOG = re.compile(r"azureml-logs/70_driver_log(?:_(?P<rank>\d+)|-(?P<role>worker|ps)-(?P<index>\d+))?\.txt")
_NUMBERED_LOG = re.compile(r"azureml-logs/(\d\d)[^/]*\.txt")


@dataclass(frozen=True)
class RankLog:
    rank: int
    role: str
    """"worker" or "ps"."""
    path: str


def rank_logs(paths: Iterable[str], definition: RunDefinition) -> Sequence[RankLog]:
    """Logs among `paths` that processes of the run write, by rank. SDK v1 chose the names.

    Parameter servers are numbered after the workers.
    """
    workers = _worker_count(definition)
    found = (_rank_log(path, workers) for path in paths)
    return sorted((one for one in found if one is not None), key=lambda one: one.rank)


def streamed_log(paths: Iterable[str], *, is_over: bool = True, own: str = "") -> str | None:
    """Log that a follower sees: the one with the highest number, of several ranks the first; without any, `own`.

    While the run is going on, no rank is chosen before the first has written: a follower would stay with the fastest.
    """
    present = list(paths)
    numbered = sorted(path for path in present if _NUMBERED_LOG.fullmatch(path))
    ranks = [one for path in numbered if (one := _rank_log(path, len(numbered))) is not None]
    if ranks:
        first = min(ranks, key=lambda one: one.rank)
        if first.rank == 0 or is_over:
            later = [path for path in numbered if path > max(one.path for one in ranks)]
            return later[-1] if later else first.path
        numbered = [path for path in numbered if _DRIVER_LOG.fullmatch(path) is None]
    if numbered:
        return numbered[-1]
    return own if own in present else None


def _rank_log(path: str, worker_count: int) -> RankLog | None:
    found = _DRIVER_LOG.fullmatch(path)
    if found is None:
        return None
    if found["role"] == "ps":
        return RankLog(worker_count + int(found["index"]), "ps", path)
    return RankLog(int(found["rank"] or found["index"] or 0), "worker", path)


def _worker_count(definition: RunDefinition) -> int:
    return (
        distribution_of(definition).workers if distribution_kind(definition) is DistributionKind.PARAMETER_SERVER else 0
    )
