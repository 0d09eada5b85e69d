"""Models with a scoring script, as a client of the wire sends them; they run on the interpreter of the tests."""

import os
import sys
from pathlib import Path
from typing import Any

from runyard.environments.uv_environments import UvEnvironments
from runyard.serving.deployments.worker_environment import no_code_environment
from tests.wire_client import WireClient

SCORE = """
import json, os

def init():
    global weights
    with open(os.path.join(os.environ["AZUREML_MODEL_DIR"], "weights.txt")) as file:
        weights = file.read()

def run(body):
    return {"weights": weights, "got": json.loads(body), "greeting": os.environ["GREETING"]}
"""


def registered(client: WireClient, name: str = "net") -> str:
    """The model's id, NAME:VERSION."""
    files = [["weights.txt", client.put_blob(b"heavy"), 5, 0o644]]
    model = client.post(f"{client.here}/assets/models", {"name": name, "body": {"files": files}})
    return f"{model['name']}:{model['version']}"


def inference(client: WireClient, script: str = SCORE, python: str = sys.executable) -> dict[str, Any]:
    code = script.encode()
    return {
        "entry_script": "score.py",
        "files": [["score.py", client.put_blob(code), len(code), 0o644]],
        "environment": {
            "name": "here",
            "python": {"userManagedDependencies": True, "interpreterPath": python},
            "environmentVariables": {"GREETING": "ahoj"},
        },
    }


def registered_without_code(client: WireClient, name: str, content: bytes) -> str:
    """The id of a model of scikit-learn."""
    files = [["model.joblib", client.put_blob(content), len(content), 0o644]]
    body = {"files": files, "framework": "ScikitLearn"}
    model = client.post(f"{client.here}/assets/models", {"name": name, "body": body})
    return f"{model['name']}:{model['version']}"


def scikit_learn_python(home: str) -> str:
    """The interpreter of the environment in which models of scikit-learn are served; it is built where it is not."""
    _, environment = no_code_environment("ScikitLearn", None, gpu_present=False)
    return UvEnvironments(Path(home, "environments"), os.environ).ensure(environment, print).python


def submitter() -> dict[str, Any]:
    return {"python": sys.executable, "user": "tester", "variables": {}}
