"""Memory at rest of what stands between clients and workers: the gateway, and all that it started but workers."""

import time
from collections.abc import Iterator
from pathlib import Path

from bench.home import Home, open_home
from bench.measuring import Bar, Measurement
from bench.serve_noop import SCRIPT
from bench.serving.deploying import deployed, gateway_pid, script

MORE = 4
REST_SECONDS = 1.5
MB = 1e6
WORKER = b"runyard_sdk.scoring.worker"


def measure() -> Iterator[Measurement]:
    with open_home() as home:
        inference = script(home, "no-op", SCRIPT)
        deployed(home, "no-op-0", [], inference).run("{}")
        one = _held(home, "Pss")
        resident, worker = _held(home, "Rss"), _held(home, "Pss", workers=True)
        for number in range(1, 1 + MORE):
            deployed(home, f"no-op-{number}", [], inference).run("{}")
        further = (_held(home, "Pss") - one) / MORE
    also = {"resident MB": resident / MB, "each further web service MB": further / MB, "its worker MB": worker / MB}
    bar = Bar("under 80 MB", lambda value, _: value < 80)
    yield Measurement("gateway with one web service, beyond its worker", one / MB, "MB", bar, also=also)


def _held(home: Home, what: str, *, workers: bool = False) -> float:
    """Bytes of the gateway and its children, or of the workers among these alone. Pss shares out shared pages."""
    time.sleep(REST_SECONDS)
    gateway = gateway_pid(home)
    tree = [gateway, *_below(gateway)]
    return sum(_bytes(pid, what) for pid in tree if (WORKER in Path(f"/proc/{pid}/cmdline").read_bytes()) == workers)


def _below(pid: int) -> list[int]:
    text = "".join(file.read_text() for file in Path(f"/proc/{pid}/task").glob("*/children"))
    children = [int(child) for child in text.split()]
    return children + [deeper for child in children for deeper in _below(child)]


def _bytes(pid: int, what: str) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
    return next(1024.0 * int(line.split()[1]) for line in lines if line.startswith(f"{what}:"))
