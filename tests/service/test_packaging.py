import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.service.scoring_models import inference, registered, submitter
from tests.wire_client import WireClient


def made(client: WireClient, **changes: object) -> dict:
    body = {"models": [registered(client)], "inference": inference(client), "submitter": submitter(), **changes}
    return client.post(f"{client.here}/packages", body)


@pytest.fixture
def folder(client: WireClient, tmp_path: Path) -> Path:
    """A package, unpacked."""
    package = made(client)
    assert package["state"] == "Succeeded", package
    content = client.read(f"{client.here}/packages/{package['id']}/zip")
    zipfile.ZipFile(io.BytesIO(content)).extractall(tmp_path / "package")
    return tmp_path / "package"


def test_a_package_answers_by_itself(folder: Path) -> None:
    command = [sys.executable, "-I", str(folder / "entrypoint.py"), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd="/")
    try:
        assert server.stdout is not None
        said = server.stdout.readline()
        assert said.startswith("Serving "), said
        with urlopen(said.split()[-1], b'{"rows": [1, 2]}', timeout=30) as answer:
            assert json.load(answer) == {"weights": "heavy", "got": {"rows": [1, 2]}, "greeting": "ahoj"}
    finally:
        server.kill()
        server.communicate()


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


def test_what_could_not_be_deployed_is_not_packaged(client: WireClient) -> None:
    body = {"models": ["nothing:1"], "inference": inference(client), "submitter": submitter()}
    assert client.refusal("POST", f"{client.here}/packages", body)["status"] == 404
    assert client.refusal("GET", f"{client.here}/packages/nothing")["status"] == 404
