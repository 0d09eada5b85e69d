"""What mounting a dataset of a local datastore adds to the start of a run: first line with the input less without."""

import time
from collections.abc import Iterator
from pathlib import Path

from bench.home import Home, open_home
from bench.measuring import Measurement, Subject, at_most, interleaved, median, spread_of

REPEATS = 15
SCRIPT = """
import sys, time
open(sys.argv[1], "w").write(repr(time.time()))
"""


def measure() -> Iterator[Measurement]:
    from azureml.core import Dataset

    with open_home() as home:
        store = home.workspace.get_default_datastore()
        source = home.root / "data"
        source.mkdir()
        for number in range(100):
            (source / f"{number}.txt").write_text(str(number), encoding="utf-8")
        store.upload(str(source), "data", show_progress=False)
        data = Dataset.File.from_files((store, "data")).register(home.workspace, "data")
        subjects = {
            "without": _first_line(home, "without", []),
            "with": _first_line(home, "with", [data.as_named_input("data").as_mount()]),
        }
        taken = interleaved(subjects, REPEATS, warm_up=2)
    added = [(after - before) * 1000 for before, after in zip(taken["without"], taken["with"], strict=True)]
    yield Measurement(
        "mount set-up for a run on a local datastore", median(added), "ms", at_most(50, "ms"), None, spread_of(added)
    )


def _first_line(home: Home, name: str, arguments: list[object]) -> Subject:
    started_at = Path(home.root, f"{name}-started")
    config = home.config(name, SCRIPT, started_at)
    config.arguments = [*config.arguments, *arguments]

    def subject() -> float:
        submitted = time.time()
        home.submit(config).wait_for_completion()
        return float(started_at.read_text(encoding="utf-8")) - submitted

    return subject
