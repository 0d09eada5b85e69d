"""MLflow on SQLite: what log_metric costs, points a second in batches, or reading one long history."""

import os
import sys
import time

import mlflow
from answering import answer, seconds
from mlflow.entities import Metric

CALLS, POINTS, BATCH = 200, 100_000, 1000
mlflow.set_tracking_uri(f"sqlite:///{os.getcwd()}/mlflow.db")
client = mlflow.MlflowClient()


def call():
    taken = []
    with mlflow.start_run():
        for step in range(CALLS):
            begun = time.perf_counter_ns()
            mlflow.log_metric("loss", 0.25, step=step)
            taken.append(time.perf_counter_ns() - begun)
    return sorted(taken)[CALLS // 2] / 1000


def log_all():
    run = client.create_run("0").info.run_id
    now = int(time.time() * 1000)
    for start in range(0, POINTS, BATCH):
        client.log_batch(run, metrics=[Metric("loss", 0.25, now, step) for step in range(start, start + BATCH)])
    return run


def readable():
    begun = time.perf_counter()
    assert len(client.get_metric_history(log_all(), "loss")) == POINTS
    return POINTS / (time.perf_counter() - begun)


def history():
    if not known:
        known.append(log_all())
    return seconds(lambda: client.get_metric_history(known[0], "loss"))


known = []
answer({"call": call, "readable": readable, "history": history}[sys.argv[1]])
