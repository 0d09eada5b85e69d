from azureml._version import VERSION
from azureml.core.webservice.aci import AciWebservice
from azureml.core.webservice.aks import AksEndpoint, AksWebservice
from azureml.core.webservice.local import LocalWebservice
from azureml.core.webservice.unknown_webservice import UnknownWebservice
from azureml.core.webservice.webservice import Webservice

__all__ = ["VERSION", "AciWebservice", "AksEndpoint", "AksWebservice", "LocalWebservice", "UnknownWebservice",
           "Webservice"]
