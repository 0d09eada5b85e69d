"""Train in an image of your own, made from a Dockerfile and the files beside it, with packages on top."""

from pathlib import Path

from azureml.core import Environment, Experiment, ScriptRunConfig, Workspace
from azureml.core.conda_dependencies import CondaDependencies
from azureml.core.environment import DockerBuildContext
from azureml.core.runconfig import DockerConfiguration

HERE = Path(__file__).parent

workspace = Workspace.from_config()
environment = Environment("rates")
environment.docker.build_context = DockerBuildContext.from_local_directory(workspace, str(HERE / "context"))
environment.python.conda_dependencies = CondaDependencies.create(python_version="3.11", pip_packages=["numpy"])

config = ScriptRunConfig(
    source_directory=str(HERE),
    script="train.py",
    environment=environment,
    docker_runtime_config=DockerConfiguration(use_docker=True, shm_size="256m"),
)
run = Experiment(workspace, "in-an-image").submit(config)
run.wait_for_completion(show_output=True)
print("Metrics:", run.get_metrics())
