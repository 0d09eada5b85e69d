"""The peers' side of the question and answer: standard library only, run by the peer's own interpreter."""

import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor


def answer(measure):
    """For each line on stdin, one number; what the peer itself prints goes to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for _ in sys.stdin:
        answers.write("RESULT " + json.dumps(measure()) + "\n")
        answers.flush()


def seconds(action):
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun


def rate(action, runs, at_a_time=2):
    def all_of_them():
        with ThreadPoolExecutor(at_a_time) as pool:
            for done in [pool.submit(action) for _ in range(runs)]:
                done.result()

    return runs / seconds(all_of_them)
