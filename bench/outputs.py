"""Files written to ./outputs just before the script ends, until the run with all of them is in run history."""

import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.home import Home, open_home
from bench.measuring import Bar, Measurement, Subject, at_most, interleaved, median, seconds_of, spread_of, times_floor
from bench.peers.process import open_peers

REPEATS = 5
SIZES = {"1,000 x 10 KB": (1000, 10_000), "1 x 1 GiB": (1, 1 << 30)}
BARS: dict[str, Bar] = {"1,000 x 10 KB": at_most(0.3, "s"), "1 x 1 GiB": times_floor(3)}
# Chance bytes, made once outside the run: making them would take longer than storing them.
SCRIPT = """
import os, shutil, sys, time
source, ended_at = sys.argv[1:]
os.makedirs("outputs", exist_ok=True)
for name in os.listdir(source):
    shutil.copyfile(os.path.join(source, name), os.path.join("outputs", name))
open(ended_at, "w").write(repr(time.time()))
"""


def measure() -> Iterator[Measurement]:
    for name, (count, size) in SIZES.items():
        with tempfile.TemporaryDirectory() as folder, open_home() as home:
            source = Path(folder) / "source"
            source.mkdir()
            for number in range(count):
                (source / f"{number}.bin").write_bytes(os.urandom(size))
            wanted = {
                "mlflow over HTTP": ("mlflow", "files_mlflow.py", [str(source)]),
                "wandb offline": ("wandb", "files_wandb.py", [str(source)]),
            }
            with open_peers(wanted, Path(folder) / "peers") as peers:
                subjects = {"floor": seconds_of(lambda source=source: _hash_all(source)), **peers.running}
                subjects["ours"] = _run(home, source, count)
                taken = interleaved(subjects, REPEATS, rarely=peers.running, rare=2)
        value, floor, spread = median(taken["ours"]), median(taken["floor"]), spread_of(taken["ours"])
        yield Measurement(f"outputs {name}", value, "s", BARS[name], floor, spread, peers.medians(taken), peers.reasons)


def _hash_all(source: Path) -> None:
    for file in source.iterdir():
        with file.open("rb") as content:
            hashlib.file_digest(content, "sha256")


def _run(home: Home, source: Path, count: int) -> Subject:
    ended_at = home.root / "ended-at"
    config = home.config(f"outputs-{count}", SCRIPT, source, ended_at)

    def subject() -> float:
        run = home.submit(config)
        run.wait_for_completion()
        seconds = time.time() - float(ended_at.read_text(encoding="utf-8"))
        assert sum(name.startswith("outputs/") for name in run.get_file_names()) == count
        return seconds

    return subject
