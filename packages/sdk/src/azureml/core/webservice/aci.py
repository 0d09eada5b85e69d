from azureml.core.environment import Environment  # noqa: F401
from azureml.core.image import Image  # noqa: F401
from azureml.core.model import Model  # noqa: F401
from azureml.core.webservice._not_yet_classes import (  # noqa: F401
    AciServiceDeploymentConfiguration, AciWebservice, ContainerResourceRequirements, EncryptionProperties,
    VnetConfiguration, Webservice, WebserviceDeploymentConfiguration)
from azureml.exceptions import WebserviceException  # noqa: F401
