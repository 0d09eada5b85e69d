from azureml.core.image.container import ContainerImageConfig  # noqa: F401
from azureml.core.model import InferenceConfig, Model  # noqa: F401
from azureml.core.webservice._not_yet_classes import (  # noqa: F401
    LocalWebservice, LocalWebserviceDeploymentConfiguration, Webservice, WebserviceDeploymentConfiguration)
from azureml.exceptions import WebserviceException  # noqa: F401
