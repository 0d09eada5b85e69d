from azureml._version import VERSION
from azureml.core.image.container import ContainerImage
from azureml.core.image.image import Image
from azureml.core.image.unknown_image import UnknownImage

__all__ = ["VERSION", "ContainerImage", "Image", "UnknownImage"]
