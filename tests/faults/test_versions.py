"""The version before and this one side by side: what the old one has begun, the new one carries to its end."""

import json
import os
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from azureml.core import Experiment, Run, ScriptRunConfig, Webservice, Workspace
from tests.conftest import end_home
from tests.faults.yard import DEADLINE_SECONDS, ended, eventually, this_python

REPOSITORY = Path(__file__).parents[2]
BEFORE = "7b08200"
"""The last commit before the modules moved to the parts of the product."""
pytestmark = pytest.mark.timeout(900)
SCRIPT = """
import os, sys, time
from azureml.core import Run
folder = sys.argv[1]
run = Run.get_context()
os.makedirs("outputs", exist_ok=True)
step = 0
while not os.path.exists(os.path.join(folder, "gate")):
    run.log("point", step)
    print("step", step, flush=True)
    step += 1
    with open(os.path.join(folder, "steps-" + run.id), "w") as sink:
        sink.write(str(step))
    time.sleep(0.05)
run.log("score", 0.5)
with open("outputs/last", "w") as sink:
    sink.write(str(step))
"""
SUBMIT = """
import json, sys
from azureml.core import Environment, Experiment, ScriptRunConfig, Workspace
from azureml.core.compute import AmlCompute, ComputeTarget
from azureml.train.hyperdrive import HyperDriveConfig, PrimaryMetricGoal, RandomParameterSampling, choice
folder, source = sys.argv[1:]
workspace = Workspace.create(name="old", exist_ok=True)
environment = Environment("this")
environment.python.user_managed_dependencies = True
environment.python.interpreter_path = sys.executable
cluster = ComputeTarget.create(workspace, "nodes", AmlCompute.provisioning_configuration("STANDARD_D2_V2", max_nodes=2))
cluster.wait_for_completion()
def config(target):
    return ScriptRunConfig(source, "train.py", arguments=[folder], compute_target=target, environment=environment)
experiment = Experiment(workspace, "before")
local = experiment.submit(config("local"))
sampling = RandomParameterSampling({"--x": choice(1, 2)})
sweep = experiment.submit(HyperDriveConfig(
    run_config=config("nodes"), hyperparameter_sampling=sampling, primary_metric_name="score",
    primary_metric_goal=PrimaryMetricGoal.MAXIMIZE, max_total_runs=3, max_concurrent_runs=2))
print(json.dumps({"local": local.id, "sweep": sweep.id}))
"""
DEPLOY = """
import json, os, sys
from azureml.core import Environment, Model, Workspace
from azureml.core.model import InferenceConfig
folder = sys.argv[1]
workspace = Workspace.create(name="old", exist_ok=True)
environment = Environment("this")
environment.python.user_managed_dependencies = True
environment.python.interpreter_path = sys.executable
with open(os.path.join(folder, "weights"), "w") as sink:
    sink.write("7")
model = Model.register(workspace, model_path=os.path.join(folder, "weights"), model_name="old-model")
config = InferenceConfig("score.py", source_directory=folder, environment=environment)
service = Model.deploy(workspace, "answering", [model], config)
service.wait_for_deployment()
print(json.dumps({"uri": service.scoring_uri}))
"""
SCORE = """
import os
def init():
    global weight
    with open(os.path.join(os.environ["AZUREML_MODEL_DIR"], "weights")) as source:
        weight = int(source.read())
def run(data):
    return weight
"""


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of an installation of the version before."""
    place = tmp_path_factory.mktemp("before")
    archive = subprocess.run(["git", "archive", BEFORE, "packages"], cwd=REPOSITORY, capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", str(place)], input=archive.stdout, check=True)
    uv, apart = REPOSITORY / ".venv" / "bin" / "uv", {**os.environ, "TMPDIR": str(place)}
    subprocess.run([uv, "venv", "--quiet", place / "venv"], check=True, env=apart)
    install = [uv, "pip", "install", "--quiet", "--python", place / "venv" / "bin" / "python"]
    constraints = ["--constraint", REPOSITORY / "constraints.txt"]
    packages = [place / "packages" / "sdk", place / "packages" / "runyard"]
    subprocess.run([*install, *constraints, *packages], check=True, env=apart)
    return place / "venv" / "bin"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("RUNYARD_HOME", str(tmp_path / "home"))
    yield tmp_path / "home"
    end_home(tmp_path / "home")


def _steps(folder: Path, run_id: str) -> int:
    noted = folder / f"steps-{run_id}"
    return int(noted.read_text() or 0) if noted.exists() else 0


def test_runs_that_an_old_supervisor_looks_after_end_well_under_the_new_service(old: Path, home: Path, tmp_path: Path):
    folder, source = tmp_path / "folder", tmp_path / "source"
    folder.mkdir()
    source.mkdir()
    (source / "train.py").write_text(SCRIPT, encoding="utf-8")
    (tmp_path / "submit.py").write_text(SUBMIT, encoding="utf-8")
    submit = [old / "python", tmp_path / "submit.py", folder, source]
    told = subprocess.run(submit, capture_output=True, text=True, timeout=DEADLINE_SECONDS, cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    ids = json.loads(told.stdout.splitlines()[-1])
    children = [f"{ids['sweep']}_{number}" for number in range(2)]
    for run_id in (ids["local"], *children):
        eventually(lambda run_id=run_id: _steps(folder, run_id) > 5, f"steps of {run_id}")
    subprocess.run([old / "runyard", "down"], check=True, timeout=60, capture_output=True)
    seen = {run_id: _steps(folder, run_id) for run_id in (ids["local"], *children)}

    workspace = Workspace.get(name="old")  # starts this version, which migrates the database
    for run_id, before in seen.items():
        eventually(lambda run_id=run_id, before=before: _steps(folder, run_id) > before + 5, f"more of {run_id}")
        assert Run.get(workspace, run_id).get_status() == "Running"
    (folder / "gate").touch()
    experiment = Experiment(workspace, "before")
    sweep = ended(Run(experiment, ids["sweep"]))
    assert sweep.get_status() == "Completed"
    for run_id in (ids["local"], *children, f"{ids['sweep']}_2"):
        run = ended(Run.get(workspace, run_id))
        assert run.get_status() == "Completed", run.get_details()
        steps = _steps(folder, run_id)
        metrics = run.get_metrics()
        points = metrics.get("point", [])
        assert (points if isinstance(points, list) else [points]) == list(range(steps))
        assert metrics["score"] == 0.5
        assert "outputs/last" in run.get_file_names()
    again = experiment.submit(_config_of(source, folder))
    assert ended(again).get_status() == "Completed"


def test_a_web_service_of_the_old_version_answers_under_the_new_one(old: Path, home: Path, tmp_path: Path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "score.py").write_text(SCORE, encoding="utf-8")
    (tmp_path / "deploy.py").write_text(DEPLOY, encoding="utf-8")
    deploy = [old / "python", tmp_path / "deploy.py", folder]
    deployed = subprocess.run(deploy, capture_output=True, text=True, timeout=DEADLINE_SECONDS, cwd=tmp_path)
    assert deployed.returncode == 0, deployed.stderr
    uri = json.loads(deployed.stdout.splitlines()[-1])["uri"]
    assert _score(uri) == 7
    service_pid = json.loads((home / "service.json").read_text(encoding="utf-8"))["pid"]
    os.kill(service_pid, signal.SIGKILL)  # `down` would stop the web services too
    assert _score(uri) == 7

    workspace = Workspace.get(name="old")  # starts this version, which replaces the gateway
    service = Webservice(workspace, "answering")
    eventually(lambda: service.get_logs() is not None, "its log")
    assert service.scoring_uri == uri
    eventually(lambda: _score(uri) == 7, "an answer")
    assert service.run("{}") == 7
    service.update(description="of both versions")
    assert service.run("{}") == 7
    service.delete()
    assert Webservice.list(workspace) == []


def _score(uri: str) -> int | None:
    request = urllib.request.Request(uri, data=b"{}", headers={"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.loads(answer.read())
    except OSError:
        return None


def _config_of(source: Path, folder: Path) -> ScriptRunConfig:
    return ScriptRunConfig(str(source), "train.py", arguments=[str(folder)], environment=this_python())
