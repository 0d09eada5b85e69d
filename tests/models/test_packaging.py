import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests.serving.scoring_models import inference, registered, registered_without_code, scikit_learn_python, submitter
from tests.wire_client import WireClient

pytestmark = pytest.mark.slow

IRIS = """
import joblib
from sklearn.linear_model import LogisticRegression
joblib.dump(LogisticRegression().fit([[0.0], [1.0], [9.0], [10.0]], [0, 0, 1, 1]), "model.joblib")
"""


def made(client: WireClient, **changes: object) -> dict:
    body = {"models": [registered(client)], "inference": inference(client), "submitter": submitter(), **changes}
    return client.post(f"{client.here}/packages", body)


def unpacked(client: WireClient, package: dict[str, Any], folder: Path) -> Path:
    assert package["state"] == "Succeeded", package
    content = client.read(f"{client.here}/packages/{package['id']}/zip")
    zipfile.ZipFile(io.BytesIO(content)).extractall(folder)
    return folder


@pytest.fixture
def folder(client: WireClient, tmp_path: Path) -> Path:
    """A package, unpacked."""
    return unpacked(client, made(client), tmp_path / "package")


@contextmanager
def served(folder: Path, python: str) -> Iterator[str]:
    """The address that a package says it answers at."""
    command = [python, "-I", str(folder / "entrypoint.py"), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd="/")
    try:
        assert server.stdout is not None
        said = server.stdout.readline()
        assert said.startswith("Serving "), said
        yield said.split()[-1]
    finally:
        server.kill()
        server.communicate()


def test_a_package_answers_by_itself(folder: Path) -> None:
    with served(folder, sys.executable) as address, urlopen(address, b'{"rows": [1, 2]}', timeout=30) as answer:
        assert json.load(answer) == {"weights": "heavy", "got": {"rows": [1, 2]}, "greeting": "ahoj"}


def test_a_package_without_code_answers_by_itself(client: WireClient, service: dict[str, Any], tmp_path: Path) -> None:
    python = scikit_learn_python(service["home"])
    subprocess.run([python, "-c", IRIS], cwd=tmp_path, check=True, timeout=60)
    model = registered_without_code(client, "line", (tmp_path / "model.joblib").read_bytes())
    folder = unpacked(client, made(client, models=[model], inference=None), tmp_path / "package")
    assert "scikit-learn==" in (folder / "requirements.txt").read_text(encoding="utf-8")
    question = b'{"data": [[0.5], [9.5]], "method": "predict"}'
    with served(folder, python) as address, urlopen(address, question, timeout=60) as answer:
        assert json.load(answer) == {"predict": [0, 1]}


def test_a_package_has_all_that_an_image_is_made_of(folder: Path) -> None:
    python = "{}.{}".format(*sys.version_info)
    dockerfile = (folder / "Dockerfile").read_text(encoding="utf-8")
    assert f"FROM python:{python}-slim" in dockerfile
    assert "pip install --no-cache-dir -r requirements.txt" in dockerfile
    assert (folder / "azureml-app" / "score.py").is_file()
    assert (folder / "azureml-models" / "net" / "1" / "weights.txt").read_text(encoding="utf-8") == "heavy"
    assert (folder / "sdk" / "runyard_sdk" / "scoring" / "standalone.py").is_file()
    pins = (folder / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert any(pin.startswith("pytest==") for pin in pins)
    assert all("==" in pin for pin in pins)


def test_a_package_whose_interpreter_is_not_there_fails_with_the_cause(client: WireClient) -> None:
    package = made(client, inference=inference(client, python="/nowhere/python"))
    assert package["state"] == "Failed"
    assert "/nowhere/python" in package["error"]["problem"]
    refused = client.refusal("GET", f"{client.here}/packages/{package['id']}/zip")
    assert refused["status"] == 409


@pytest.mark.parametrize("field", ["models", "inference", "submitter"])
def test_a_definition_of_another_type_is_refused_by_name(client: WireClient, field: str) -> None:
    body = {"models": [registered(client)], "inference": inference(client), "submitter": submitter(), field: 1e308}
    refused = client.refusal("POST", f"{client.here}/packages", body)
    assert (refused["status"], field in refused["problem"]) == (400, True)


def test_what_could_not_be_deployed_is_not_packaged(client: WireClient) -> None:
    body = {"models": ["nothing:1"], "inference": inference(client), "submitter": submitter()}
    assert client.refusal("POST", f"{client.here}/packages", body)["status"] == 404
    assert client.refusal("GET", f"{client.here}/packages/nothing")["status"] == 404
