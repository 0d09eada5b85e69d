"""Rounds of load in turn on all that are compared, and the lines made of them."""

from collections.abc import Callable, Collection, Mapping

from bench.measuring import Bar, Measurement, median, spread_of
from bench.serving.load import Generator, Load, Target, WrongAnswer

CONNECTIONS = (1, 16, 64)
OURS, FLOOR = "ours", "floor"
BarOf = Callable[[int, Mapping[str, float | None]], Bar]


class Rounds:
    """Every subject's rounds by its number of connections. A peer that fails is left out from then on, with its reason;
    ours and the floor must not fail."""

    def __init__(self, generator: Generator, targets: Mapping[str, Target], reasons: Mapping[str, str]) -> None:
        self._generator, self._targets = generator, dict(targets)
        self.reasons = dict(reasons)
        self.taken: dict[tuple[str, int], list[Load]] = {}

    def play(self, count: int, seconds: float, rarely: Collection[str] = (), rare: int = 1) -> None:
        """After a short round that does not count. Those in `rarely` take part in every `rare`-th round only."""
        for name in list(self._targets):
            self._send(name, CONNECTIONS[1], 0.3)
        for turn in range(count):
            names = [name for name in self._targets if name not in rarely or turn % rare == 0]
            shift = turn % len(names)
            for connections in CONNECTIONS:
                for name in names[shift:] + names[:shift]:
                    load = self._send(name, connections, seconds)
                    if load is not None:
                        self.taken.setdefault((name, connections), []).append(load)

    def _send(self, name: str, connections: int, seconds: float) -> Load | None:
        if name in self.reasons:
            return None
        try:
            return self._generator.send(self._targets[name], connections, seconds)
        except WrongAnswer as wrong:
            if name in (OURS, FLOOR):
                raise
            self.reasons[name] = str(wrong)
            return None

    def figure(self, name: str, connections: int, what: str) -> float:
        return median([getattr(load, what) for load in self.taken[name, connections]])

    def others(self, connections: int, what: str) -> dict[str, float | None]:
        """Of all but ours and the floor; None for those that gave no number."""
        names = [*self._targets, *(name for name in self.reasons if name not in self._targets)]
        return {
            name: None if name in self.reasons else self.figure(name, connections, what)
            for name in names
            if name not in (OURS, FLOOR)
        }

    def measurement(self, bench: str, connections: int, bar_of: BarOf) -> Measurement:
        """Requests a second, with the latencies of all beside them."""
        own = [load.rate for load in self.taken[OURS, connections]]
        floor = [load.rate for load in self.taken[FLOOR, connections]]
        others = self.others(connections, "rate")
        return Measurement(
            f"{bench}, c={connections}",
            median(own),
            "requests/s",
            bar_of(connections, others),
            median(floor),
            spread_of(own),
            others,
            self.reasons,
            {
                "ratio of each round": [one / other for one, other in zip(own, floor, strict=True)],
                "p50 ms": self._of_all(connections, "p50"),
                "p99 ms": self._of_all(connections, "p99"),
                "generator's part of a core": self._of_all(connections, "cpu"),
            },
        )

    def tail(self, bench: str, connections: int, bar: Bar) -> Measurement:
        """The 99th percentile of our latency."""
        own = [load.p99 for load in self.taken[OURS, connections]]
        floor = self.figure(FLOOR, connections, "p99")
        return Measurement(f"{bench}, c={connections}, p99", median(own), "ms", bar, floor, spread_of(own))

    def _of_all(self, connections: int, what: str) -> dict[str, float | None]:
        both = {name: self.figure(name, connections, what) for name in (OURS, FLOOR)}
        return {**both, **self.others(connections, what)}
