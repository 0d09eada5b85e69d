"""Web services come with part 4: their classes exist here by name."""
from azureml._not_yet import not_yet_class


def _named(name):
    return not_yet_class(name, 4, "azureml.core.webservice")


Webservice = _named("Webservice")
AciWebservice = _named("AciWebservice")
AksWebservice = _named("AksWebservice")
AksEndpoint = _named("AksEndpoint")
LocalWebservice = _named("LocalWebservice")
UnknownWebservice = _named("UnknownWebservice")
WebserviceDeploymentConfiguration = _named("WebserviceDeploymentConfiguration")
AciServiceDeploymentConfiguration = _named("AciServiceDeploymentConfiguration")
AksServiceDeploymentConfiguration = _named("AksServiceDeploymentConfiguration")
AksEndpointDeploymentConfiguration = _named("AksEndpointDeploymentConfiguration")
LocalWebserviceDeploymentConfiguration = _named("LocalWebserviceDeploymentConfiguration")
ContainerResourceRequirements = _named("ContainerResourceRequirements")
EncryptionProperties = _named("EncryptionProperties")
VnetConfiguration = _named("VnetConfiguration")
AutoScaler = _named("AutoScaler")
DataCollection = _named("DataCollection")
LivenessProbeRequirements = _named("LivenessProbeRequirements")
WebServiceAccessToken = _named("WebServiceAccessToken")
AksServiceAccessToken = _named("AksServiceAccessToken")
