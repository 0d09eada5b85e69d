import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from runyard.core.definitions.run import RunDefinition
from runyard.planning.distribution import Kind, distribution_of, kind_of

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
    return distribution_of(definition).workers if kind_of(definition) is Kind.PARAMETER_SERVER else 0
