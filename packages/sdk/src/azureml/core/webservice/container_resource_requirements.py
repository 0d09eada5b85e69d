from azureml.core.webservice._not_yet_classes import ContainerResourceRequirements  # noqa: F401
from azureml.exceptions import WebserviceException  # noqa: F401
