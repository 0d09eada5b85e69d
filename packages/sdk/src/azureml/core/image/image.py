from azureml._not_yet import not_yet_class
from azureml.core.model import Model  # noqa: F401
from azureml.exceptions import WebserviceException  # noqa: F401

Image = not_yet_class("Image", 4, "azureml.core.image")
ImageConfig = not_yet_class("ImageConfig", 4, "azureml.core.image")
Asset = not_yet_class("Asset", 4, "azureml.core.image")
TargetRuntime = not_yet_class("TargetRuntime", 4, "azureml.core.image")
