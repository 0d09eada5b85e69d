from azureml._not_yet import not_yet_class
from azureml.core.image.image import Image  # noqa: F401

UnknownImage = not_yet_class("UnknownImage", 4, "azureml.core.image")
