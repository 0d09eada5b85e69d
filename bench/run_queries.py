"""Two questions to a history of 100,000 runs with 10 metrics and 5 tags each, beside a plain indexed table."""

import random
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench.home import open_home
from bench.measuring import Measurement, at_most, interleaved, median, percentile, seconds_of, spread_of
from bench.row_copies import copy_run
from runyard.core.records.metrics import MetricBatch, MetricKind
from runyard.core.records.runs import RunId, RunRecord, RunStatus
from runyard.server.lifecycle import stop_service
from runyard.storage.sql.stores import open_stores
from runyard_sdk.client import Client

RUNS, METRICS, TAGS, REPEATS = 100_000, 10, 5, 200
NOT_MEASURED = {"mlflow": "no quick way to give it 100,000 runs: not measured here yet"}
NEWEST, BEST = "newest 100 of 100,000 runs", "top 100 by a metric above a value"


def measure() -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory() as folder, open_home() as home:
        stop_service(home.path)
        _fill(home.path / "runyard.db")
        plain = _plain_table(Path(folder) / "plain.db")
        client = Client()
        runs = "/workspaces/bench/runs"
        subjects = {
            f"{NEWEST} floor": seconds_of(lambda: plain.execute(PLAIN_NEWEST).fetchall()),
            NEWEST: seconds_of(lambda: client.get(runs, limit=100)),
            f"{BEST} floor": seconds_of(lambda: plain.execute(PLAIN_BEST).fetchall()),
            BEST: seconds_of(lambda: client.get(runs, order_by_metric="metric-3", above=0.5, limit=100)),
        }
        assert len(client.get(runs, limit=100)["runs"]) == 100
        taken = interleaved(subjects, REPEATS, warm_up=5)
    for name in (NEWEST, BEST):
        floor, value = median(taken[f"{name} floor"]) * 1000, percentile(taken[name], 95) * 1000
        spread = spread_of(taken[name])
        yield Measurement(f"{name}, p95", value, "ms", at_most(10, "ms"), floor, spread, {"mlflow": None}, NOT_MEASURED)


PLAIN_NEWEST = "select * from runs order by number desc limit 100"
PLAIN_BEST = "select * from runs where metric > 0.5 order by metric desc limit 100"


def _plain_table(file: Path) -> sqlite3.Connection:
    chance = random.Random(1)
    table = sqlite3.connect(file)
    table.execute("create table runs (number integer primary key, id text, status text, tags text, metric real)")
    rows = ((n, f"run_{n}", "Completed", '{"tag-0": "1"}', chance.random()) for n in range(RUNS))
    table.executemany("insert into runs values (?, ?, ?, ?, ?)", rows)
    table.execute("create index by_metric on runs (metric)")
    table.commit()
    return table


def _fill(database: Path) -> None:
    """One run through the store, then copies of its rows: the tables hold what the store itself would have written."""
    template = RunId("bench_0_template")
    stores = open_stores(f"sqlite:///{database}")
    now = datetime.now(UTC)
    tags = {f"tag-{n}": str(n) for n in range(TAGS)}
    run = RunRecord(template, "bench", "bench", 0, RunStatus.NOT_STARTED, now - timedelta(days=1), tags=tags)
    stores.runs.move(stores.runs.create(run), RunStatus.COMPLETED)
    points = [MetricBatch(f"metric-{n}", MetricKind.SCALAR, [0.25], [None], [time.time()]) for n in range(METRICS)]
    stores.metrics.append(template, "journal", 0, 100, points)
    stores.close()
    with sqlite3.connect(database) as connection:
        copy_run(connection, template, RUNS - 1, prefix=f"{template}_", drawn=["last"])
