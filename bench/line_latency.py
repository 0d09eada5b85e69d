"""From a line printed by the script to the follower."""

from collections.abc import Iterator

from bench.following import follow
from bench.home import open_home
from bench.measuring import Measurement, at_most, percentile, spread_of

LINES = 200
SCRIPT = (
    f"import time\nfor _ in range({LINES}):\n    print('at', repr(time.time()), flush=True)\n    time.sleep(0.02)\n"
)


def measure() -> Iterator[Measurement]:
    with open_home() as home:
        config = home.config("lines", SCRIPT)
        follow(home.submit(config))
        shown = follow(home.submit(config))
    lags = [(seen - float(line.split()[1])) * 1000 for line, seen in shown if line.startswith("at ")]
    assert len(lags) == LINES, f"{len(lags)} of {LINES} lines were shown"
    value = percentile(lags, 95)
    yield Measurement("printed line to follower, p95", value, "ms", at_most(100, "ms"), spread=spread_of(lags))
