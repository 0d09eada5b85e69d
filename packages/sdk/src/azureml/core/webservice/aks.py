from azureml.core.compute import ComputeTarget  # noqa: F401
from azureml.core.environment import Environment  # noqa: F401
from azureml.core.image import Image  # noqa: F401
from azureml.core.model import Model  # noqa: F401
from azureml.core.webservice._aks_configuration import (  # noqa: F401
    AKS_ENDPOINT_TYPE, AKS_WEBSERVICE_TYPE, NAMESPACE_REGEX, AksEndpointDeploymentConfiguration,
    AksServiceDeploymentConfiguration)
from azureml.core.webservice._aks_endpoint import AksEndpoint  # noqa: F401
from azureml.core.webservice._aks_webservice import AksWebservice  # noqa: F401
from azureml.core.webservice._replica_parts import (  # noqa: F401
    AksServiceAccessToken, AutoScaler, DataCollection, LivenessProbeRequirements, WebServiceAccessToken)
from azureml.core.webservice.container_resource_requirements import ContainerResourceRequirements  # noqa: F401
from azureml.core.webservice.webservice import (  # noqa: F401
    SERVICE_REQUEST_OPERATION_UPDATE, Webservice, WebserviceDeploymentConfiguration)
from azureml.exceptions import WebserviceException  # noqa: F401

MMS_MIGRATION_TIMEOUT_SECONDS = 30
WEBSERVICE_SWAGGER_PATH = "/swagger.json"
