"""Sweeps with many trials, and trials that log without end: what is heard stays quick."""

import gc
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.core.records.runs import RunId, RunStatus
from runyard.testing.records import scalars
from tests.faults.conftest import FULL
from tests.runs.sweep_parts import METRIC, SweepYard, opened

TRIALS = 10_000 if FULL else 100
INTERVALS = 10
POINTS = 100_000 if FULL else 10_000
LOAD_SECONDS_A_TRIAL = 0.001


@pytest.fixture
def sweeps(tmp_path: Path) -> Iterator[SweepYard]:
    yield from opened(tmp_path)


@pytest.mark.parametrize("policy", ["MedianStopping", "TruncationSelection"])
def test_many_trials_are_read_and_judged_quickly_by_a_new_service(sweeps: SweepYard, policy: str) -> None:
    properties = {"truncation_percentage": 20} if policy == "TruncationSelection" else {}
    sweeps.submit(policy={"name": policy, "properties": properties}, max_total_runs=TRIALS, max_concurrent_runs=TRIALS)
    children = sweeps.children(TRIALS)
    for place, child in enumerate(children[:-20]):
        numbers = scalars(METRIC, *(0.5 + place / TRIALS / 4 for _ in range(INTERVALS)))
        sweeps.stores.metrics.append(child, "j", 0, 10, [numbers])
        sweeps.end(child)
    sweeps.restart()
    began = time.process_time()
    sweeps.sweep()
    assert time.process_time() - began < max(1.0, TRIALS * LOAD_SECONDS_A_TRIAL)
    took = [_seconds(sweeps, child) for child in children[-20:]]
    assert sweeps.canceled == children[-20:]
    assert sorted(took)[18] < 0.3


def test_a_child_that_logs_without_end_keeps_nobody_else_waiting(sweeps: SweepYard) -> None:
    sweeps.submit()
    busy, bad = sweeps.children(2)
    lines = [sweeps.line(METRIC, 0.9) for _ in range(POINTS)]
    began = time.process_time()
    for first in range(0, POINTS, 10_000):  # a supervisor sends half a megabyte at most
        sweeps.deliver(busy, 0, *lines[first : first + 10_000])
    assert time.process_time() - began < POINTS / 10_000
    assert _seconds(sweeps, bad) < 0.3
    assert sweeps.canceled == [bad]
    assert len([line for line in sweeps.lines() if " leads: " in line]) == 1


def _seconds(sweeps: SweepYard, child: RunId) -> float:
    assert sweeps.run(child).status is RunStatus.RUNNING
    gc.disable()  # what thousands of other tests left in this process is not the sweep's
    try:
        began = time.thread_time()
        sweeps.log(child, 0.1)
        return time.thread_time() - began
    finally:
        gc.enable()
