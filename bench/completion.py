"""From the script's last moment to Completed in the hands of wait_for_completion()."""

import time
from collections.abc import Iterator
from pathlib import Path

from bench.home import Home, open_home
from bench.measuring import Measurement, at_most, percentile, spread_of

REPEATS = 60
SCRIPT = "import sys, time\nopen(sys.argv[1], 'w').write(repr(time.time()))\n"


def measure() -> Iterator[Measurement]:
    with open_home() as home:
        ended_at = home.root / "ended-at"
        config = home.config("completion", SCRIPT, ended_at)
        home.submit(config).wait_for_completion()
        lags = [_lag(home, config, ended_at) for _ in range(REPEATS)]
    value = percentile(lags, 95)
    yield Measurement("script exit to Completed, p95", value, "ms", at_most(150, "ms"), spread=spread_of(lags))


def _lag(home: Home, config: object, ended_at: Path) -> float:
    home.submit(config).wait_for_completion()
    return (time.time() - float(ended_at.read_text(encoding="utf-8"))) * 1000
