"""Aim: what track() costs."""

import time

from aim import Run
from answering import answer

CALLS = 5_000


def call():
    run = Run(repo=".", system_tracking_interval=None, log_system_params=False)
    taken = []
    for step in range(CALLS):
        begun = time.perf_counter_ns()
        run.track(0.25, name="loss", step=step)
        taken.append(time.perf_counter_ns() - begun)
    run.close()
    return sorted(taken)[CALLS // 2] / 1000


answer(call)
