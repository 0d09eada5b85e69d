import json
import math
import sys
from array import array
from collections.abc import Sequence
from typing import Any

import orjson

from runyard.access.authorization import Access
from runyard.core.definitions.fields import JsonValue
from runyard.core.policy import Action
from runyard.core.ports.stores import MetricStore, RunStore
from runyard.core.principal import Principal
from runyard.core.records.metrics import MetricKind, MetricSeries
from runyard.core.records.runs import RunId

_TYPECODES = {"i": "q", "f": "d"}


class Metrics:
    def __init__(self, runs: RunStore, metrics: MetricStore, access: Access) -> None:
        self._runs, self._metrics, self._access = runs, metrics, access

    def series(
        self,
        who: Principal,
        run_id: RunId,
        name: str | None = None,
        *,
        children: bool = False,
        rank: int | None = None,
    ) -> dict[RunId, Sequence[MetricSeries]]:
        """Metrics of the run, with `children` of its descendants too; with `rank` those of one rank only."""
        self._access.reach(who, Action.READ_RUN, run_id)
        if not children:
            return {run_id: self._metrics.series(run_id, name, rank)}
        self._runs.get(run_id)
        below = [child.id for child in self._runs.descendants(run_id)]
        return dict(self._metrics.series_of([run_id, *below], name, rank))

    def last_values(self, who: Principal, run_id: RunId) -> dict[str, JsonValue]:
        """Newest value of each metric: a number, a text, or the last row of a row or table as a dict.

        Numbers come from summaries; only metrics without a number are read whole.
        """
        self._access.reach(who, Action.READ_RUN, run_id)
        found: dict[str, JsonValue] = {}
        for summary in self._metrics.summaries([run_id])[run_id]:
            found[summary.name] = summary.last
            if summary.last is None or not math.isfinite(summary.last):
                several = self._metrics.series(run_id, summary.name)
                found[summary.name] = next(last_value(one) for one in several if one.kind is summary.kind)
        return found

    def packed(
        self,
        who: Principal,
        run_id: RunId,
        name: str | None = None,
        *,
        children: bool = False,
        rank: int | None = None,
        after: int = 0,
        limit: int | None = None,
    ) -> bytes:
        """Metrics as `series`, packed; with `limit`, a page of that many metrics that begins after `after`."""
        if limit is None:
            return pack(self.series(who, run_id, name, children=children, rank=rank))
        self._access.run(who, Action.READ_RUN, run_id)
        below = [child.id for child in self._runs.descendants(run_id)] if children else []
        page, next_after = self._metrics.series_page([run_id, *below], name, rank, after=after, limit=limit)
        return pack(dict(page), next_after)


def last_value(series: MetricSeries) -> Any:
    """Last value as in `Metrics.last_values`. NaN and infinity become texts, since JSON has none."""
    last = series.values[-1]
    if series.kind is MetricKind.TABLE:
        last = {column: cells[-1] for column, cells in last.items() if cells}
    if isinstance(last, dict):
        return {column: _storable(cell) for column, cell in last.items()}
    return _storable(last)


def _storable(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def pack(found: dict[RunId, Sequence[MetricSeries]], next_after: int | None = None) -> bytes:
    """A JSON header line that describes the metrics, then the values of each metric."""
    head, payloads = [], []
    for run_id, several in found.items():
        for one in several:
            payload = _payload(one)
            payloads.append(payload)
            head.append(
                {
                    "run_id": run_id,
                    "name": one.name,
                    "kind": one.kind.value,
                    "type": one.type,
                    "count": len(one.values),
                    "bytes": len(payload),
                }
            )
    return b"".join([orjson.dumps({"metrics": head, "next": next_after}), b"\n", *payloads])


def _payload(series: MetricSeries) -> bytes:
    code = _TYPECODES.get(series.type)
    if code is None:
        return json.dumps(list(series.values), separators=(",", ":")).encode()
    values = series.values if isinstance(series.values, array) and series.values.typecode == code else None
    packed = array(code, series.values) if values is None else values
    if sys.byteorder == "big":
        packed = array(code, packed)
        packed.byteswap()
    return packed.tobytes()
