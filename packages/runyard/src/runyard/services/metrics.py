import json
import sys
from array import array
from collections.abc import Sequence

import orjson

from runyard.model.metrics import MetricSeries
from runyard.model.runs import RunId
from runyard.ports.stores import MetricStore, RunStore
from runyard.services.children import children_of

_TYPECODES = {"i": "q", "f": "d"}


class Metrics:
    def __init__(self, runs: RunStore, metrics: MetricStore) -> None:
        self._runs, self._metrics = runs, metrics

    def series(
        self, run_id: RunId, name: str | None = None, *, children: bool = False
    ) -> dict[RunId, Sequence[MetricSeries]]:
        """Of the run, and of its direct and further children when asked."""
        run = self._runs.get(run_id)
        found = {run_id: self._metrics.series(run_id, name)}
        for child in children_of(self._runs, run) if children else ():
            found.update(self.series(child.id, name, children=True))
        return found

    def packed(self, run_id: RunId, name: str | None = None, *, children: bool = False) -> bytes:
        return pack(self.series(run_id, name, children=children))


def pack(found: dict[RunId, Sequence[MetricSeries]]) -> bytes:
    """A JSON header line that says what follows, then the values of each metric back to back."""
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
    return b"".join([orjson.dumps({"metrics": head}), b"\n", *payloads])


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
