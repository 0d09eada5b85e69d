import os

import pytest

from runyard.environments.uv_environments import UvEnvironments
from runyard.serving.deployments.worker_environment import no_code_environment
from tests.serving.scorers.asking import Framework


@pytest.fixture(scope="session")
def environments(tmp_path_factory):
    return UvEnvironments(tmp_path_factory.mktemp("scorers") / "environments", os.environ)


@pytest.fixture(scope="session")
def scikit_learn(environments):
    scorer, spec = no_code_environment("ScikitLearn", None, gpu_present=False)
    return Framework(environments.ensure(spec, lambda line: None).python, scorer)
