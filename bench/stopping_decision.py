"""From run.log() of the primary metric in a child to the decision to stop it, with several children logging at once."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from azureml.core import Run
from azureml.train.hyperdrive import BanditPolicy, HyperDriveConfig, PrimaryMetricGoal, RandomParameterSampling, randint
from bench.cluster import NAME, make_cluster
from bench.home import Home, open_home
from bench.measuring import Measurement, at_most, percentile, spread_of

CHILDREN, AT_A_TIME, MOST_INTERVALS = 121, 4, 500
# The first child shows at once what can be reached; each other one follows it for a while and then stays behind.
SCRIPT = f"""
import sys, time
from azureml.core import Run
run = Run.get_context()
is_first, ability = run.id.endswith("_0"), 5 + int(sys.argv[2])
for interval in range(1, {MOST_INTERVALS} + 1 if is_first else 10 * {MOST_INTERVALS}):
    run.log("sent_at", time.time())
    run.log("reached", interval if is_first else min(interval, ability))
    if not is_first:
        time.sleep(0.02)
"""


def measure() -> Iterator[Measurement]:
    with open_home() as home:
        make_cluster(home, AT_A_TIME)
        sweep = home.submit(_sweep_config(home))
        sweep.wait_for_completion()
        trials = home.client.get(f"/runs/{sweep.id}/trials")["trials"]
        stopped = [trial for trial in trials if trial["stop"] is not None]
        assert len(stopped) == CHILDREN - 1, f"{len(stopped)} children were stopped"
        lags = [_lag(home, Run.get(home.workspace, trial["run_id"]), trial["stop"]["interval"]) for trial in stopped]
    decided, spread = [decision for decision, _ in lags], spread_of([decision for decision, _ in lags])
    also = {
        "median": percentile(decided, 50),
        "most": max(decided),
        "until the cancel is stored, p95": percentile([cancel for _, cancel in lags], 95),
    }
    name = f"logged to stopping decision, p95 of {len(decided)}"
    yield Measurement(name, percentile(decided, 95), "ms", at_most(300, "ms"), spread=spread, also=also)


def _sweep_config(home: Home) -> HyperDriveConfig:
    config = home.config("falling-behind", SCRIPT)
    config.run_config.target = NAME
    return HyperDriveConfig(
        run_config=config,
        hyperparameter_sampling=RandomParameterSampling({"ability": randint(40)}, properties={"seed": 1}),
        policy=BanditPolicy(slack_amount=0.5),
        primary_metric_name="reached",
        primary_metric_goal=PrimaryMetricGoal.MAXIMIZE,
        max_total_runs=CHILDREN,
        max_concurrent_runs=AT_A_TIME,
    )


def _lag(home: Home, child: Any, interval: int) -> tuple[float, float]:
    """Milliseconds from the log of the interval that decided to the decision, and to the cancel that follows from it,
    which is ordered once the decision is kept."""
    sent_at = child.get_metrics(name="sent_at")["sent_at"][interval - 1]
    events = home.client.get(f"/runs/{child.id}/events")["events"]
    decided = next(event["at"] for event in events if event["kind"] == "policy")
    canceled = next(event["at"] for event in events if event["text"] == "CancelRequested")
    return _after(sent_at, decided), _after(sent_at, canceled)


def _after(sent_at: float, moment: str) -> float:
    return (datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp() - sent_at) * 1000
