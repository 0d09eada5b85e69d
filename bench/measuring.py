"""One measurement is one JSON line: our value beside a floor and the peers, all taken in the same run.

The subjects take turns, so that a busy moment of the machine hits all of them; medians are reported.
"""

import gc
import json
import statistics
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Subject = Callable[[], float]


@dataclass(frozen=True)
class Bar:
    """What has to hold. `words` are shown, `holds(value, floor)` decides."""

    words: str
    holds: Callable[[float, float], bool]


def above_floor(margin: float, unit: str) -> Bar:
    return Bar(f"at most floor + {margin:g} {unit}", lambda value, floor: value <= floor + margin)


def at_most(limit: float, unit: str) -> Bar:
    return Bar(f"at most {limit:g} {unit}", lambda value, _: value <= limit)


def at_least(limit: float, unit: str) -> Bar:
    return Bar(f"at least {limit:g} {unit}", lambda value, _: value >= limit)


def times_floor(factor: float) -> Bar:
    return Bar(f"at most {factor:g} x floor", lambda value, floor: value <= factor * floor)


@dataclass(frozen=True)
class Measurement:
    """`floor` is None where the issue names none. A peer that gave no number has None there and a reason beside it."""

    bench: str
    value: float
    unit: str
    bar: Bar
    floor: float | None = None
    spread: float = 0.0
    peers: Mapping[str, float | None] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    also: Mapping[str, Any] = field(default_factory=dict)
    """Figures of the same rounds that no bar asks for."""

    def line(self) -> str:
        shown: dict[str, Any] = {
            "bench": self.bench,
            "value": _rounded(self.value),
            "unit": self.unit,
            "floor": _rounded(self.floor),
            "ratio": _rounded(self.value / self.floor) if self.floor else None,
            "bar": self.bar.words,
            "holds": self.bar.holds(self.value, self.floor or 0.0),
            "spread": _rounded(self.spread),
            "peers": {name: _rounded(value) for name, value in self.peers.items()},
        }
        if self.reasons:
            shown["reasons"] = dict(self.reasons)
        if self.also:
            shown["also"] = _all_rounded(self.also)
        return json.dumps(shown)


def interleaved(
    subjects: Mapping[str, Subject], repeats: int, warm_up: int = 1, rarely: Collection[str] = (), rare: int = 5
) -> dict[str, list[float]]:
    """Every subject's values over `repeats` rounds, after rounds that do not count.

    Those named in `rarely`, being slow and far away, take part in every `rare`-th round only.
    """
    for _ in range(warm_up):
        for subject in subjects.values():
            subject()
    taken: dict[str, list[float]] = {name: [] for name in subjects}
    names = list(subjects)
    for turn in range(repeats):
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            if name not in rarely or turn % rare == 0:
                taken[name].append(subjects[name]())
    return taken


def seconds_of(action: Callable[[], object]) -> Subject:
    def subject() -> float:
        gc.collect()
        begun = time.perf_counter()
        action()
        return time.perf_counter() - begun

    return subject


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` of all values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -(-len(ordered) * int(percent) // 100) - 1))]


def spread_of(values: Sequence[float]) -> float:
    """The middle half's width as a part of the median."""
    if len(values) < 4:
        return 0.0
    low, middle, high = statistics.quantiles(values, n=4)
    return (high - low) / middle if middle else 0.0


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def _all_rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _all_rounded(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_all_rounded(part) for part in value]
    return _rounded(value) if isinstance(value, float) else value
