"""Models with a scoring script, as a client of the wire sends them; they run on the interpreter of the tests."""

import sys
from typing import Any

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


def submitter() -> dict[str, Any]:
    return {"python": sys.executable, "user": "tester", "variables": {}}
