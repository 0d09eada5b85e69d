"""The same for environments and their parts."""

from types import SimpleNamespace
from typing import Any

from azureml.core import Environment, databricks
from azureml.core import environment as environments
from azureml.core.conda_dependencies import CondaDependencies
from azureml.core.container_registry import ContainerRegistry, RegistryIdentity

CLIENT = SimpleNamespace(transport=SimpleNamespace(address="http://localhost:1"))


def environment_instances() -> dict[str, Any]:
    """Golden class name to an object of it."""
    made: dict[str, Any] = {
        "azureml.core.Environment": Environment("e"),
        "azureml.core.ContainerRegistry": ContainerRegistry(),
        "azureml.core.container_registry.RegistryIdentity": RegistryIdentity(),
        "azureml.core.conda_dependencies.CondaDependencies": CondaDependencies(),
        "azureml.core.environment.EnvironmentReference": environments.EnvironmentReference("e"),
        "azureml.core.environment.ImageBuildDetails": environments.ImageBuildDetails(CLIENT, "/builds/1"),
    }
    for name in (
        "DockerBuildContext", "DockerEnvironment", "DockerImageDetails", "DockerImagePlatform", "DockerSection",
        "PythonEnvironment", "PythonSection", "RCranPackage", "RGitHubPackage", "RSection", "SparkEnvironment",
        "SparkPackage", "SparkSection",
    ):  # fmt: skip
        made[f"azureml.core.environment.{name}"] = getattr(environments, name)()
    for name in (
        "DatabricksCluster", "DatabricksEnvironment", "DatabricksSection", "EggLibrary", "JarLibrary", "MavenLibrary",
        "PyPiLibrary", "RCranLibrary",
    ):  # fmt: skip
        made[f"azureml.core.databricks.{name}"] = getattr(databricks, name)()
    return made
