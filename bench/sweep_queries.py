"""The best child, and all children sorted, of a sweep with 10,000 of them, beside a plain table of ids and numbers."""

import random
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from azureml.core import Experiment
from azureml.train.hyperdrive import HyperDriveRun
from bench.home import open_home
from bench.measuring import Measurement, at_most, interleaved, median, percentile, seconds_of, spread_of
from bench.row_copies import copy_run
from runyard.core.definitions.run import RunDefinition
from runyard.core.records.metrics import MetricBatch, MetricKind
from runyard.core.records.runs import RunId, RunRecord, RunStatus
from runyard.core.records.sweeps import Trial
from runyard.runs.kinds.sweep.checks import SWEEP_TYPE
from runyard.server.lifecycle import stop_service
from runyard.storage.sql.stores import open_stores

CHILDREN, METRICS, REPEATS = 10_000, 5, 30
SWEEP = RunId("HD_0b0e3c4e-8a9d-4f0a-9f55-0123456789ab")
BEST, SORTED = "get_best_run_by_primary_metric of 10,000 children", "10,000 children sorted by their primary metric"
NO_PEERS = {"others": "none reads a sweep of that size from a store of its own by one call"}
ASKED = {
    "sampling": {"name": "RANDOM", "parameter_space": {"--rate": ["loguniform", [-6, -1]]}, "properties": {}},
    "policy": {"name": "Default", "properties": {}},
    "primary_metric": {"name": "metric-0", "goal": "maximize"},
    "max_total_runs": CHILDREN,
    "max_concurrent_runs": 100,
    "max_duration_minutes": 10_080,
}
PLAIN = "select id, status, hyperparameters, metric from children order by metric desc"


def measure() -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory() as folder, open_home() as home:
        stop_service(home.path)
        _fill(home.path / "runyard.db")
        plain = _plain_table(Path(folder) / "plain.db")
        sweep = HyperDriveRun(Experiment(home.workspace, "bench"), SWEEP)
        ranked = sweep.get_children_sorted_by_primary_metric()
        assert len(ranked) == CHILDREN
        assert sweep.get_best_run_by_primary_metric().id == ranked[0]["run_id"]
        subjects = {
            f"{BEST} floor": seconds_of(lambda: plain.execute(f"{PLAIN} limit 1").fetchall()),
            BEST: seconds_of(sweep.get_best_run_by_primary_metric),
            f"{SORTED} floor": seconds_of(lambda: plain.execute(PLAIN).fetchall()),
            SORTED: seconds_of(sweep.get_children_sorted_by_primary_metric),
        }
        taken = interleaved(subjects, REPEATS, warm_up=3)
    for name in (BEST, SORTED):
        floor, value = median(taken[f"{name} floor"]) * 1000, median(taken[name]) * 1000
        also = {"p95": percentile(taken[name], 95) * 1000}
        yield Measurement(
            name, value, "ms", at_most(100, "ms"), floor, spread_of(taken[name]), reasons=NO_PEERS, also=also
        )


def _plain_table(file: Path) -> sqlite3.Connection:
    chance = random.Random(1)
    table = sqlite3.connect(file)
    table.execute("create table children (id text, status text, hyperparameters text, metric real)")
    rows = ((f"{SWEEP}_{n}", "Completed", '{"--rate": 0.01}', chance.random()) for n in range(CHILDREN))
    table.executemany("insert into children values (?, ?, ?, ?)", rows)
    table.commit()
    return table


def _fill(database: Path) -> None:
    stores = open_stores(f"sqlite:///{database}")
    now, chance = datetime.now(UTC), random.Random(2)
    asked = {"runyard": {"sweep": ASKED}}
    sweep = RunRecord(
        SWEEP, "bench", "bench", 0, RunStatus.NOT_STARTED, now, type=SWEEP_TYPE, definition=RunDefinition(asked)
    )
    stores.runs.move(stores.runs.create(sweep), RunStatus.COMPLETED)
    stores.trials.add(
        [Trial(SWEEP, n, {"--rate": chance.random(), "--layers": chance.randrange(9)}) for n in range(CHILDREN)]
    )
    child = RunRecord(RunId(f"{SWEEP}_0"), "bench", "bench", 0, RunStatus.NOT_STARTED, now, parent_id=SWEEP)
    stores.runs.move(stores.runs.create(child), RunStatus.COMPLETED)
    points = [MetricBatch(f"metric-{n}", MetricKind.SCALAR, [0.25], [None], [time.time()]) for n in range(METRICS)]
    stores.metrics.append(child.id, "journal", 0, 100, points)
    stores.close()
    with sqlite3.connect(database) as connection:
        drawn = ["last", "scored_minimum", "scored_maximum"]
        copy_run(connection, child.id, CHILDREN - 1, prefix=f"{SWEEP}_", drawn=drawn)
