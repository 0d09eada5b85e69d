"""`python -m bench.flows`: how many of our files take part in three flows, in all processes together.

A file takes part when one of its functions is called between the first request of the flow and its end; what runs
only at import does not count. Service, agent and gateway are warm: each flow is run once before it is counted.
"""

import json
import mmap
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
HOOK = """
import mmap, os, sys, threading
place = {place!r}
if os.path.exists(place):
    shared = mmap.mmap(os.open(place + "/turn", os.O_RDONLY), 1, prot=mmap.PROT_READ)
    seen, turn = set(), [0]
    def note(frame, event, argument):
        if event != "call" or shared[0] == 0:
            return
        if turn[0] != shared[0]:
            turn[0] = shared[0]
            seen.clear()
        code = frame.f_code
        if code in seen:
            return
        seen.add(code)
        name = code.co_filename
        if "/src/runyard" in name or "/src/azureml" in name:
            if code.co_name != "<module>":
                part = "%s/%d-%d" % (place, shared[0], os.getpid())
                out = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
                os.write(out, (name + "\\n").encode())
                os.close(out)
    sys.setprofile(note)
    threading.setprofile(note)
"""
TRAIN = """
import time
from azureml.core import Run
run = Run.get_context()
for step in range({steps}):
    run.log("score", step)
    time.sleep({pause})
"""
SCORE = """
import json
def init(): pass
def run(data): return json.loads(data)
"""


@contextmanager
def traced() -> Iterator[Path]:
    """Every interpreter of this environment notes what it calls."""
    place = Path(tempfile.mkdtemp(prefix="flows-"))
    place.chmod(0o755)
    (place / "turn").write_bytes(b"\\0")
    site = Path(sysconfig.get_paths()["purelib"])
    hook, starter = site / "runyard_flows.py", site / "runyard_flows.pth"
    hook.write_text(HOOK.format(place=str(place)), encoding="utf-8")
    starter.write_text("import runyard_flows\n", encoding="utf-8")
    try:
        yield place
    finally:
        starter.unlink()
        hook.unlink()


def main() -> None:
    if len(sys.argv) > 1:
        _flow(sys.argv[1], Path(sys.argv[2]))
        return
    with traced() as place, tempfile.TemporaryDirectory() as home:
        os.environ["RUNYARD_HOME"] = f"{home}/home"
        for name in ("submit", "deploy", "policy"):
            subprocess.run([sys.executable, "-m", "bench.flows", name, str(place)], check=True, cwd=REPOSITORY)
        subprocess.run([Path(sys.executable).with_name("runyard"), "down"], check=True, capture_output=True)


def _flow(name: str, place: Path) -> None:
    flow: Callable[[], None] = {"submit": _submit, "deploy": _deploy, "policy": _policy}[name]
    flow()
    turn = {"submit": 1, "deploy": 2, "policy": 3}[name]
    with (place / "turn").open("r+b") as file:
        shared = mmap.mmap(file.fileno(), 1)
        shared[0] = turn
        flow()
        shared[0] = 0
    time.sleep(0.5)
    called = {line for part in place.glob(f"{turn}-*") for line in part.read_text().splitlines()}
    short = sorted(line.partition("/src/")[2] for line in called)
    parts: dict[str, int] = {}
    for line in short:
        part = "/".join(line.split("/")[:2]) if line.startswith("runyard/") else line.split("/")[0]
        parts[part] = parts.get(part, 0) + 1
    print(json.dumps({"bench": "flows", "flow": name, "files": len(short), "by_part": parts}), flush=True)


def _config(folder: str, text: str):  # type: ignore[no-untyped-def]
    from azureml.core import Environment, ScriptRunConfig

    Path(folder, "train.py").write_text(text, encoding="utf-8")
    environment = Environment("this")
    environment.python.user_managed_dependencies = True
    environment.python.interpreter_path = sys.executable
    return ScriptRunConfig(folder, "train.py", environment=environment)


def _submit() -> None:
    from azureml.core import Experiment, Workspace

    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace.create("flows", exist_ok=True)
        run = Experiment(workspace, "flows").submit(_config(folder, TRAIN.format(steps=3, pause=0)))
        run.wait_for_completion()
        assert len(run.get_metrics()["score"]) == 3


def _deploy() -> None:
    from azureml.core import Environment, Workspace
    from azureml.core.model import InferenceConfig, Model
    from azureml.core.webservice import LocalWebservice

    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace.create("flows", exist_ok=True)
        Path(folder, "score.py").write_text(SCORE, encoding="utf-8")
        Path(folder, "model.txt").write_text("m", encoding="utf-8")
        model = Model.register(workspace, model_path=f"{folder}/model.txt", model_name="m")
        environment = Environment("this")
        environment.python.user_managed_dependencies = True
        environment.python.interpreter_path = sys.executable
        inference = InferenceConfig(entry_script="score.py", source_directory=folder, environment=environment)
        service = Model.deploy(
            workspace, "flow", [model], inference, LocalWebservice.deploy_configuration(), overwrite=True
        )
        service.wait_for_deployment()
        assert service.run(json.dumps({"a": 1})) == {"a": 1}
        service.delete()


def _policy() -> None:
    from azureml.core import Experiment, Workspace
    from azureml.train.hyperdrive import (
        HyperDriveConfig,
        PrimaryMetricGoal,
        RandomParameterSampling,
        TruncationSelectionPolicy,
        choice,
    )

    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace.create("flows", exist_ok=True)
        text = TRAIN.format(steps=60, pause=0.05).replace("step)\n", "step * float(__import__('sys').argv[-1]))\n", 1)
        sweep = HyperDriveConfig(
            run_config=_config(folder, text),
            hyperparameter_sampling=RandomParameterSampling({"--x": choice(1, 2, 3, 4)}),
            policy=TruncationSelectionPolicy(truncation_percentage=50, evaluation_interval=1, delay_evaluation=5),
            primary_metric_name="score",
            primary_metric_goal=PrimaryMetricGoal.MAXIMIZE,
            max_total_runs=4,
            max_concurrent_runs=4,
        )
        run = Experiment(workspace, "flows").submit(sweep)
        run.wait_for_completion()
        assert any(child.get_status() == "Canceled" for child in run.get_children())


if __name__ == "__main__":
    main()
