"""Twenty runs of one new environment, submitted at once, until all have left Preparing; beside one run of it alone.

The environment is that of `TensorFlow(framework_version='1.13')`, its packages in uv's cache. Before each round it and
its lock are taken away.
"""

import shutil
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

from azureml.core import Environment
from bench.home import Home, open_home
from bench.measuring import Bar, Measurement, interleaved, median, spread_of
from bench.uv_by_hand import beside_the_cache
from runyard.environments.builder import prune_environments

RUNS, REPEATS = 20, 3
CURATED = "AzureML-TensorFlow-1.13-CPU"
BUILD_LOG = "azureml-logs/20_image_build_log.txt"
WAITED = "Another run is building this environment"


def measure() -> Iterator[Measurement]:
    with open_home(beside_the_cache()) as home:
        config = home.config("herd", "print('here')\n")
        config.run_config.environment = Environment.get(home.workspace, CURATED)
        builders: list[int] = []
        subjects = {
            "floor": lambda: _submitted(home, config, 1, []),
            "ours": lambda: _submitted(home, config, RUNS, builders),
        }
        taken = interleaved(subjects, REPEATS)
    bar = Bar("at most 1.2 x floor, one build", lambda value, floor: value <= 1.2 * floor and set(builders) == {1})
    yield Measurement(
        f"{RUNS} runs of one new environment until all have left Preparing",
        median(taken["ours"]),
        "s",
        bar,
        median(taken["floor"]),
        spread_of(taken["ours"]),
        also={"builds": max(builders)},
    )


def _submitted(home: Home, config: Any, count: int, builders: list[int]) -> float:
    """Seconds until the last of them has left Preparing; how many of them built is added to `builders`."""
    environments = home.path / "environments"
    prune_environments(environments)
    shutil.rmtree(environments / "locks", ignore_errors=True)
    begun = time.time()
    with ThreadPoolExecutor(count) as threads:
        runs = list(threads.map(lambda _: home.submit(config), range(count)))
    for run in runs:
        run.wait_for_completion()
    builders.append(sum(map(_built, runs)))
    return max(_left_preparing(home, run) for run in runs) - begun


def _left_preparing(home: Home, run: Any) -> float:
    phases: Sequence[Any] = home.client.get(f"/runs/{run.id}/events")["phases"]
    ends = [_moment(one["started_at"]) + one["seconds"] for one in phases if one["name"] == "Preparing"]
    return max(ends, default=0.0)


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _built(run: Any) -> bool:
    log = run.get_details_with_logs()["logFiles"].get(BUILD_LOG, "")
    return bool(log) and WAITED not in log
