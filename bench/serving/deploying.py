"""Web services of ours, made through the SDK as a user makes them."""

import json
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from azureml.core import Environment, Model
from azureml.core.model import InferenceConfig
from azureml.core.webservice import AciWebservice
from bench.home import Home
from bench.peers.process import SCORING
from bench.serving.load import Target
from bench.serving.servers import Question

METHOD = "predict"
SKLEARN = SCORING[0].partition("==")[2]


def register_iris(home: Home, model: Path) -> Model:
    """Registered with its framework, to be deployed without code."""
    return Model.register(
        home.workspace,
        model_path=str(model),
        model_name="iris",
        model_framework=Model.Framework.SCIKITLEARN,
        model_framework_version=SKLEARN,
    )


def deploy(home: Home, name: str, models: list[Model], inference: InferenceConfig | None = None) -> Any:
    """Begun, not waited for. One core, so one thread, as the others have it."""
    config = AciWebservice.deploy_configuration(cpu_cores=1, memory_gb=2)
    return Model.deploy(home.workspace, name, models, inference, config)


def deployed(home: Home, name: str, models: list[Model], inference: InferenceConfig | None = None) -> Any:
    service = deploy(home, name, models, inference)
    service.wait_for_deployment()
    return service


def script(home: Home, name: str, text: str, python: str = sys.executable) -> InferenceConfig:
    """A scoring script (its text) on an interpreter that is there."""
    folder = home.root / "scripts" / name
    folder.mkdir(parents=True)
    (folder / "score.py").write_text(text, encoding="utf-8")
    environment = Environment(name)
    environment.python.user_managed_dependencies = True
    environment.python.interpreter_path = python
    return InferenceConfig(entry_script="score.py", source_directory=str(folder), environment=environment)


def script_target(service: Any, question: Question) -> Target:
    """Of a scoring script, which answers with what run() returns."""
    port, path = _place(service)
    return Target(port, path, question.bodies("data"), question.answers)


def no_code_target(service: Any, question: Question) -> Target:
    """Of a scikit-learn model that was deployed without code."""
    port, path = _place(service)
    return Target(port, path, question.bodies("data", {"method": METHOD}), question.answers, labels)


def labels(body: Any) -> object:
    return body[METHOD]


def gateway_pid(home: Home) -> int:
    return int(json.loads((home.path / "gateway.json").read_text(encoding="utf-8"))["pid"])


def _place(service: Any) -> tuple[int, str]:
    address = urlsplit(service.scoring_uri)
    assert address.port
    return address.port, address.path
