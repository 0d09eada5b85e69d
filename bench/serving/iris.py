"""The model that ours, the floor and the peers serve, and how each of them is started."""

import json
import os
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bench.peers.process import OFFLINE, PeerFailed, peer_python
from bench.serving.servers import SCRIPTS, Kind, Question

_STARLETTE = ("{python}", "-m", "uvicorn", "floor:app", "--app-dir", "{here}", "--port", "{port}")
_BENTOML = ("{bin}/bentoml", "serve", "iris_bentoml:Iris", "--working-dir", "{here}", "--port", "{port}")
UVICORN = Kind(
    "serve-floor", (*_STARLETTE, "--loop", "uvloop", "--http", "httptools", "--no-access-log", "--log-level", "warning")
)
PEERS = {
    "azureml-inference-server-http": Kind(
        "serve-azureml",
        ("{bin}/azmlinfsrv", "--entry_script", "{here}/score.py", "--model_dir", "{folder}", "--port", "{port}"),
    ),
    "litserve": Kind("serve-litserve", ("{python}", "{here}/iris_litserve.py", "{model}", "{port}")),
    "mlflow": Kind(
        "serve-mlflow",
        ("{bin}/mlflow", "models", "serve", "-m", "{model}.mlflow", "--env-manager", "local", "--port", "{port}"),
        path="/invocations",
        envelope="inputs",
        reads=lambda body: body["predictions"],
        variables={"UVICORN_ACCESS_LOG": "false"},
    ),
    "bentoml": Kind("serve-bentoml", (*_BENTOML, "--host", "127.0.0.1")),
}


@dataclass(frozen=True)
class Iris:
    model: Path
    question: Question


def make_iris(folder: Path, shift: int = 0) -> Iris:
    """Fitted with the scikit-learn that serves it, on labels that are higher by `shift`."""
    folder.mkdir(parents=True, exist_ok=True)
    model = folder / "iris.joblib"
    made = _run(UVICORN, "make_iris.py", str(model), str(shift))
    return Iris(model, Question(**json.loads(made)))


def make_iris_for_peers(folder: Path) -> Iris:
    """The same, and beside it as mlflow wants to have it, where that installs."""
    iris = make_iris(folder)
    with suppress(PeerFailed):
        _run(PEERS["mlflow"], "iris_mlflow.py", str(iris.model), f"{iris.model}.mlflow")
    return iris


def _run(kind: Kind, script: str, *arguments: str) -> str:
    command = [peer_python(kind.environment), str(SCRIPTS / script), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **OFFLINE}).stdout
