"""tensorboardX: what add_scalar costs, or points a second until TensorBoard's own reader has them all."""

import sys
import time

from answering import answer
from tensorboardX import SummaryWriter

CALLS, POINTS = 20_000, 100_000
runs = iter(range(10**6))


def call():
    writer = SummaryWriter(f"run-{next(runs)}")
    taken = []
    for step in range(CALLS):
        begun = time.perf_counter_ns()
        writer.add_scalar("loss", 0.25, step)
        taken.append(time.perf_counter_ns() - begun)
    writer.close()
    return sorted(taken)[CALLS // 2] / 1000


def readable():
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folder = f"run-{next(runs)}"
    begun = time.perf_counter()
    writer = SummaryWriter(folder)
    for step in range(POINTS):
        writer.add_scalar("loss", 0.25, step)
    writer.close()
    reader = EventAccumulator(folder, size_guidance={"scalars": 0})
    reader.Reload()
    assert len(reader.Scalars("loss")) == POINTS
    return POINTS / (time.perf_counter() - begun)


answer(call if sys.argv[1] == "call" else readable)
