from azureml._not_yet import not_yet_class
from azureml.core.container_registry import ContainerRegistry  # noqa: F401
from azureml.core.image.image import Asset, Image, ImageConfig, TargetRuntime  # noqa: F401
from azureml.exceptions import WebserviceException  # noqa: F401

ContainerImage = not_yet_class("ContainerImage", 4, "azureml.core.image")
ContainerImageConfig = not_yet_class("ContainerImageConfig", 4, "azureml.core.image")
