from azureml.core.image import Image  # noqa: F401
from azureml.core.model import Model  # noqa: F401
from azureml.core.webservice._not_yet_classes import (  # noqa: F401
    AutoScaler, ContainerResourceRequirements, DataCollection, LivenessProbeRequirements, Webservice,
    WebServiceAccessToken, WebserviceDeploymentConfiguration)
from azureml.exceptions import WebserviceException  # noqa: F401
