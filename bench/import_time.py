"""`import azureml.core` above `python -c pass`, on this Python and on the oldest one that can be found."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path

from bench.measuring import Measurement, Subject, above_floor, interleaved, median, seconds_of, spread_of
from bench.peers.process import REPOSITORY, PeerFailed, peer_python
from runyard.environments.interpreters import discover_interpreters

REPEATS = 25
BARS = {"3.11": 40.0, "3.6": 80.0}
PEERS = ("mlflow", "metaflow")


def measure() -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory() as folder:
        found = {i.minor: i.path for i in discover_interpreters(Path(folder) / "interpreters.json", os.environ)}
    for minor, margin in BARS.items():
        if minor in found:
            yield _measure_on(found[minor], f"import azureml.core on {minor}", margin, PEERS if minor == "3.11" else ())
            # Names load when first used; a script that uses all of them should not pay for more either.
            everything = f"from azureml.core import * on {minor}"
            yield _measure_on(found[minor], everything, margin, ())
        else:
            print(f"import_time: no Python {minor} on this machine, not measured", file=sys.stderr)


def _measure_on(python: str, bench: str, margin: float, others: Collection[str]) -> Measurement:
    sdk = {"PYTHONPATH": str(REPOSITORY / "packages" / "sdk" / "src")}
    statement = bench.partition(" on ")[0]
    subjects = {"floor": _running(python, "pass", sdk), "ours": _running(python, statement, sdk)}
    reasons: dict[str, str] = {}
    for name in others:
        try:
            theirs = peer_python(name)
        except PeerFailed as failure:
            reasons[name] = str(failure)
        else:
            subjects[f"{name} floor"] = _running(theirs, "pass", {})
            subjects[name] = _running(theirs, f"import {name}", {})
    taken = interleaved(subjects, REPEATS, warm_up=2, rarely=PEERS)
    floor = median(taken["floor"]) * 1000
    peers: dict[str, float | None] = dict.fromkeys(reasons)
    for name in others:
        if name in taken:  # brought to our floor, so that the numbers can be compared as they stand
            peers[name] = floor + (median(taken[name]) - median(taken[f"{name} floor"])) * 1000
    return Measurement(
        bench=bench,
        value=median(taken["ours"]) * 1000,
        unit="ms",
        bar=above_floor(margin, "ms"),
        floor=floor,
        spread=spread_of(taken["ours"]),
        peers=peers,
        reasons=reasons,
    )


def _running(python: str, code: str, variables: dict[str, str]) -> Subject:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return seconds_of(lambda: subprocess.run([python, "-c", code], env=kept | variables, check=True))
