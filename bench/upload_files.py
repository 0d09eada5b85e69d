"""A thousand small files uploaded to the default datastore of a laptop, beside `cp -r`."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.home import open_home
from bench.measuring import Measurement, Subject, interleaved, median, seconds_of, spread_of, times_floor

COUNT, SIZE, REPEATS = 1000, 10_000, 7


def measure() -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory(prefix="runyard-bench-") as folder, open_home() as home:
        source = Path(folder, "source")
        source.mkdir()
        for number in range(COUNT):
            (source / f"{number}.bin").write_bytes(os.urandom(SIZE))
        store = home.workspace.get_default_datastore()
        turns = iter(range(10**6))

        def upload() -> None:
            store.upload(str(source), f"turn-{next(turns)}", show_progress=False)

        subjects: dict[str, Subject] = {"floor": _cp(source, Path(folder, "copy")), "ours": seconds_of(upload)}
        taken = interleaved(subjects, REPEATS)
    yield Measurement(
        "upload of 1,000 x 10 KB",
        median(taken["ours"]),
        "s",
        times_floor(4),
        median(taken["floor"]),
        spread_of(taken["ours"]),
    )


def _cp(source: Path, target: Path) -> Subject:
    copy = seconds_of(lambda: subprocess.run(["cp", "-r", str(source), str(target)], check=True))

    def subject() -> float:
        shutil.rmtree(target, ignore_errors=True)
        return copy()

    return subject
