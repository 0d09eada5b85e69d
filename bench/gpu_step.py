"""Training steps on an NVIDIA GPU, under torch DDP: through Runyard, against the same script by hand."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from azureml.core.compute import AmlCompute, ComputeTarget
from azureml.core.runconfig import PyTorchConfiguration
from bench.home import Home, open_home
from bench.measuring import Bar, Measurement, interleaved, median, spread_of

PAIRS = 7
TORCH_PYTHON = "RUNYARD_BENCH_TORCH_PYTHON"
SCRIPT = (Path(__file__).parent / "gpu_script.py").read_text(encoding="utf-8")
BAR = Bar("at most 1.01 x floor", lambda value, floor: value <= 1.01 * floor)


def measure() -> Iterator[Measurement]:
    if shutil.which("nvidia-smi") is None:
        print("gpu_step: this machine has no NVIDIA GPU; nothing was measured.", file=sys.stderr)
        return
    python = os.environ.get(TORCH_PYTHON, sys.executable)
    with open_home() as home:
        config = _config(home, python)
        taken = interleaved({"floor": lambda: _by_hand(home, python), "ours": lambda: _as_run(home, config)}, PAIRS)
    ours, floor = median(taken["ours"]), median(taken["floor"])
    yield Measurement("torch DDP step on one GPU", ours, "ms", BAR, floor, spread_of(taken["ours"]))


def _config(home: Home, python: str):
    shape = AmlCompute.provisioning_configuration(vm_size="STANDARD_NC6", max_nodes=1)
    ComputeTarget.create(home.workspace, "gpu", shape).wait_for_completion()
    config = home.config("gpu", SCRIPT)
    config.run_config.target = "gpu"
    config.run_config.environment.python.interpreter_path = python
    config.run_config.framework, config.run_config.communicator = "PyTorch", "Nccl"
    config.run_config.pytorch = PyTorchConfiguration(communication_backend="Nccl", process_count=1)
    return config


def _by_hand(home: Home, python: str) -> float:
    script = home.root / "by_hand.py"
    script.write_text(SCRIPT, encoding="utf-8")
    variables = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "6105", "WORLD_SIZE": "1", "RANK": "0", "LOCAL_RANK": "0"}
    done = subprocess.run([python, str(script)], env={**os.environ, **variables}, capture_output=True, check=True)
    return _milliseconds(done.stdout.decode())


def _as_run(home: Home, config) -> float:
    run = home.submit(config)
    run.wait_for_completion()
    log = run.get_details_with_logs()["logFiles"]["azureml-logs/70_driver_log.txt"]
    return _milliseconds(log)


def _milliseconds(output: str) -> float:
    told = json.loads(next(line for line in reversed(output.splitlines()) if line.startswith("{")))
    assert told["visible"] in (None, "0"), f"CUDA_VISIBLE_DEVICES is {told['visible']!r}"
    return float(told["milliseconds"])
