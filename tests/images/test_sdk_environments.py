"""Images as users of SDK v1 ask for them: from a Dockerfile, a folder, a private registry, an estimator."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from azureml.core import ContainerRegistry, Environment, Experiment, ScriptRunConfig, Workspace
from azureml.core.compute import AmlCompute, ComputeTarget
from azureml.core.environment import DockerBuildContext
from azureml.core.runconfig import DockerConfiguration
from azureml.train.estimator import Estimator
from runyard.environments.builder import prune_environments
from runyard.environments.containers.engine import ContainerEngine
from runyard.testing.container_engine import Registry
from tests.conftest import end_home

pytestmark = pytest.mark.images
DRIVER_LOG = "azureml-logs/70_driver_log.txt"
SHOWS_WHERE_IT_IS = "import os, sys; print('in', open('/made').read().strip(), sys.executable, os.listdir('/dev/shm'))"


@pytest.fixture(scope="module")
def workspace(docker: ContainerEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """Of a service that knows of no engine: the tests' own is found by the DOCKER_HOST of who submits."""
    home = tmp_path_factory.mktemp("sdk") / "home"
    home.mkdir(mode=0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RUNYARD_HOME", str(home))
        patch.delenv("RUNYARD_URL", raising=False)
        patch.delenv("DOCKER_HOST", raising=False)
        made = Workspace.create("images", show_output=False)
        patch.setenv("DOCKER_HOST", docker.address)
        yield made
        end_home(home)
        prune_environments(home / "environments")


def log_of(workspace: Workspace, source: Path, environment: Environment, text: str = SHOWS_WHERE_IT_IS) -> str:
    """What a script prints in the environment's image."""
    source.mkdir(exist_ok=True)
    (source / "train.py").write_text(text)
    use = DockerConfiguration(use_docker=True)
    config = ScriptRunConfig(str(source), "train.py", environment=environment, docker_runtime_config=use)
    run = Experiment(workspace, "images").submit(config)
    run.wait_for_completion(raise_on_error=False)
    assert run.get_status() == "Completed", run.get_details()
    run.download_file(DRIVER_LOG, str(source / "log.txt"))
    return (source / "log.txt").read_text()


def test_an_image_of_a_dockerfile_is_built_ahead_described_and_run_in(workspace, docker, debian_python, tmp_path):
    dockerfile = f"FROM {debian_python}\nRUN echo of-a-dockerfile > /made\n"
    made = Environment.from_dockerfile("dockerfile", dockerfile)
    made.python.interpreter_path = "python3"
    made = made.register(workspace)
    assert made.get_image_details(workspace).image_exist is False
    made.build(workspace).wait_for_completion(show_output=False)
    details = made.get_image_details(workspace)
    assert details.image_exist is True
    assert docker.images.find(details.image) is not None
    assert "RUN echo of-a-dockerfile" in details.dockerfile
    assert "in of-a-dockerfile /usr/bin/python3" in log_of(workspace, tmp_path / "source", made)


def test_a_folder_is_built_from_and_its_files_are_in_the_image(workspace, debian_python, tmp_path):
    folder = tmp_path / "context"
    folder.mkdir()
    (folder / "Dockerfile").write_text(f"FROM {debian_python}\nCOPY made /made\n")
    (folder / "made").write_text("of-a-folder\n")
    context = DockerBuildContext.from_local_directory(workspace, str(folder))
    made = Environment.from_docker_build_context("folder", context)
    made.python.interpreter_path = "/usr/bin/python3"
    assert "in of-a-folder /usr/bin/python3" in log_of(workspace, tmp_path / "source", made)


def test_an_image_of_a_private_registry_is_pulled_with_the_password_that_came_along(workspace, registry, tmp_path):
    login = ContainerRegistry()
    login.address, login.username, login.password = registry.address, registry.username, registry.password
    conda = tmp_path / "env.yml"
    conda.write_text("dependencies:\n- python=3.11\n")
    made = Environment.from_docker_image("private", "team/debian:12", login, conda_specification=str(conda))
    text = "import sys; print('in', open('/etc/debian_version').read().strip(), sys.executable)"
    assert "/azureml-envs/" in log_of(workspace, tmp_path / "source", made, text)
    again = made.clone("again")
    again.docker.base_image_registry.username = again.docker.base_image_registry.password = None
    assert "/azureml-envs/" in log_of(workspace, tmp_path / "source", again, text)


def test_an_estimator_trains_in_its_custom_image_on_a_cluster(workspace, registry: Registry, tmp_path):
    (tmp_path / "source").mkdir()
    (tmp_path / "source/train.py").write_text(
        "import os, sys\nfacts = os.statvfs('/dev/shm')\n"
        "print('in', sys.executable, facts.f_blocks * facts.f_frsize >> 20, 'MiB')\n"
    )
    login = ContainerRegistry()
    login.address, login.username, login.password = registry.address, registry.username, registry.password
    cluster = ComputeTarget.create(workspace, "cpu", AmlCompute.provisioning_configuration(max_nodes=1))
    estimator = Estimator(
        str(tmp_path / "source"), compute_target=cluster, entry_script="train.py", shm_size="64m",
        custom_docker_image="team/debian:12", image_registry_details=login,
    )  # fmt: skip
    run = Experiment(workspace, "estimators").submit(estimator)
    run.wait_for_completion(raise_on_error=False)
    assert run.get_status() == "Completed", run.get_details()
    run.download_file(DRIVER_LOG, str(tmp_path / "log.txt"))
    said = (tmp_path / "log.txt").read_text()
    assert "in /azureml-envs/" in said
    assert "64 MiB" in said
