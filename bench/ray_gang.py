"""Four ranks on a warm Ray cluster of two nodes, until all have printed; beside actors starting the same processes."""

import sys
from collections.abc import Iterator

from azureml.core.runconfig import PyTorchConfiguration
from bench.gang import SCRIPT, as_run
from bench.measuring import Measurement, above_floor, at_most, interleaved, median, spread_of
from bench.ray_cluster import NAME, has_ray, warm_cluster

NODES, RANKS, REPEATS = 2, 4, 11


def measure() -> Iterator[Measurement]:
    if not has_ray("ray_gang"):
        return
    with warm_cluster(NODES, cpus=2) as (home, bare):
        config = home.config("ray-gang", SCRIPT)
        settings = config.run_config
        settings.target, settings.node_count = NAME, NODES
        settings.framework, settings.communicator = "PyTorch", "Gloo"
        settings.pytorch = PyTorchConfiguration(communication_backend="Gloo", process_count=RANKS, node_count=NODES)
        script = home.root / "script.py"
        script.write_text(SCRIPT, encoding="utf-8")
        ends: list[float] = []
        subjects = {
            "floor": lambda: bare.ask(ranks=RANKS, command=[sys.executable, str(script)]),
            "ours": lambda: as_run(home, config, RANKS, ends),
        }
        taken = interleaved(subjects, REPEATS)
    value, floor, spread = median(taken["ours"]), median(taken["floor"]), spread_of(taken["ours"])
    name = "submit to the first lines of 4 ranks on 2 Ray nodes"
    yield Measurement(name, value, "ms", above_floor(700, "ms"), floor, spread)
    yield Measurement(
        "last rank's end to Completed, on Ray", median(ends), "ms", at_most(500, "ms"), spread=spread_of(ends)
    )
