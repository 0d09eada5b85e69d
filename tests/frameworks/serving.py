"""Models made, registered and deployed without code by a client that runs in their framework's own environment."""

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import runyard_sdk
from runyard.environments.recorded_packages import RecordedPackages
from runyard.environments.uv_environments import UvEnvironments
from runyard.serving.deployments.worker_environment import no_code_environment
from tests.frameworks.programs import printed_by

SDK = Path(runyard_sdk.__file__).parents[1]
# `deployed` is a context: a registered path, served; `Asked` prints what a client over HTTP gets.
CLIENT = """
import contextlib, json, os, urllib.error, urllib.request
from azureml.core import Model, Workspace
from azureml.exceptions import WebserviceException

def http(url, body=None):
    data = None if body is None else json.dumps(body).encode("utf-8")
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, {"Content-Type": "application/json"})) as answer:
            return [answer.status, json.loads(answer.read().decode("utf-8"))]
    except urllib.error.HTTPError as error:
        return [error.code, json.loads(error.read().decode("utf-8"))]

@contextlib.contextmanager
def deployed(path, framework, version=None):
    workspace = Workspace.create("serving", exist_ok=True, show_output=False)
    model = Model.register(workspace, path, "tiny", model_framework=framework, model_framework_version=version)
    service = Model.deploy(workspace, "tiny-service", [model])
    try:
        service.wait_for_deployment(show_output=True)
        yield service
    finally:
        service.delete()

def tell(**facts):
    print("TOLD " + json.dumps(facts))

"""


class Frameworks:
    """Environments of one home, and what runs in them."""

    def __init__(self, variables: dict[str, str]) -> None:
        self._variables = variables
        self._environments = UvEnvironments(Path(variables["RUNYARD_HOME"]) / "environments", variables)

    def run(
        self, code: str, folder: Path, framework: str, version: str | None = None, *, python: str = "", also: str = ""
    ) -> tuple[dict[str, Any], str]:
        """What the code told, and all that it printed."""
        _, spec = no_code_environment(framework, version, gpu_present=False, origin=RecordedPackages(python=python))
        spec = replace(spec, requirements=(*spec.requirements, *also.split()))
        command = [self._environments.ensure(spec, print).python, "-W", "ignore", "-c", CLIENT + code]
        variables = {**self._variables, "PYTHONPATH": str(SDK), "TF_CPP_MIN_LOG_LEVEL": "2"}
        variables.pop("PYTHONDONTWRITEBYTECODE", None)
        printed = printed_by(command, folder, variables)
        told = [line.removeprefix("TOLD ") for line in printed.splitlines() if line.startswith("TOLD ")]
        facts: dict[str, Any] = {}
        for line in told:
            facts.update(json.loads(line))
        return facts, printed


def start(runyard: Path, variables: dict[str, str]) -> None:
    """The service of the home, which clients in old Pythons cannot start by themselves."""
    subprocess.run([os.fspath(runyard), "up"], env=variables, check=True, capture_output=True, timeout=60)
