"""The examples of web services, as a user runs them."""

import sys

import pytest

from tests.frameworks.conftest import REPOSITORY
from tests.frameworks.programs import printed_by

pytestmark = pytest.mark.frameworks


@pytest.fixture
def deploy(environment, runyard, tmp_path):
    """Run a script of the example; return what it printed. Its web service is deleted in the end."""
    deployed = []

    def run(script, service):
        deployed.append(service)
        return printed_by([sys.executable, REPOSITORY / "examples" / "deploy" / script], tmp_path, environment)

    yield run
    for service in deployed:
        runyard("services", "delete", service, "--yes")


def test_a_scoring_script_names_the_species(deploy, runyard):
    printed = deploy("deploy.py", "iris")
    assert "'species': 'setosa'" in printed
    assert "'species': 'virginica'" in printed
    assert "run iris_" in runyard("services", "show", "iris")


def test_without_code_the_same_model_answers(deploy, runyard):
    assert "{'predict': [0, 2]}" in deploy("no_code.py", "iris-no-code")
    assert "predict_proba" in runyard("services", "test", "iris-no-code")
