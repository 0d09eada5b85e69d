"""Steps a second of two torch DDP processes over gloo: through Runyard, against the same processes by hand."""

import json
from collections.abc import Iterator
from typing import Any

from azureml.core import Environment
from azureml.core.conda_dependencies import CondaDependencies
from azureml.core.runconfig import PyTorchConfiguration
from bench.by_hand import torch_ranks
from bench.cluster import NAME, make_cluster, rank_logs
from bench.home import Home, open_home
from bench.measuring import Bar, Measurement, interleaved, median, spread_of

PAIRS, RANKS, PORT = 7, 2, 6155
BAR = Bar("at least 0.98 x floor", lambda value, floor: value >= 0.98 * floor)
SCRIPT = """
import json, statistics, time, torch, torch.distributed as dist
from torch import nn
dist.init_process_group("gloo")
torch.set_num_threads(1)
torch.manual_seed(0)
network = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
model = nn.parallel.DistributedDataParallel(network)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
images, labels = torch.randn(256, 784), torch.randint(10, (256,))
taken = []
for step in range(330):
    begun = time.perf_counter()
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()
    taken.append(time.perf_counter() - begun)
print(json.dumps({"steps": 1 / statistics.mean(taken[30:])}), flush=True)
dist.destroy_process_group()
"""


def measure() -> Iterator[Measurement]:
    with open_home() as home:
        make_cluster(home, RANKS)
        config = _config(home)
        _as_run(home, config)  # builds the environment
        python = str(next((home.path / "environments").glob("*/bin/python")))
        script = home.root / "by_hand.py"
        script.write_text(SCRIPT, encoding="utf-8")
        subjects = {
            "floor": lambda: _slowest(torch_ranks([python, str(script)], ranks=RANKS, port=PORT)),
            "ours": lambda: _as_run(home, config),
        }
        taken = interleaved(subjects, PAIRS)
    value, floor, spread = median(taken["ours"]), median(taken["floor"]), spread_of(taken["ours"])
    yield Measurement("2 torch DDP processes over gloo", value, "steps/s", BAR, floor, spread)


def _config(home: Home) -> Any:
    config = home.config("ddp", SCRIPT)
    settings = config.run_config
    settings.target, settings.node_count = NAME, RANKS
    settings.framework, settings.communicator = "PyTorch", "Gloo"
    settings.pytorch = PyTorchConfiguration(communication_backend="Gloo", process_count=RANKS, node_count=RANKS)
    environment = Environment("torch")
    environment.python.conda_dependencies = CondaDependencies.create(
        python_version="3.11", pip_packages=["torch==2.13.0", "numpy"]
    )
    settings.environment = environment
    return config


def _as_run(home: Home, config: Any) -> float:
    run = home.submit(config)
    run.wait_for_completion()
    return _slowest(rank_logs(run, RANKS))


def _slowest(printed: list[str]) -> float:
    lines = [line for output in printed for line in output.splitlines() if line.startswith("{")]
    return min(float(json.loads(line)["steps"]) for line in lines)
