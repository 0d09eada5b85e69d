from azureml._version import VERSION
from azureml.core.webservice._not_yet_classes import (
    AciWebservice, AksEndpoint, AksWebservice, LocalWebservice, UnknownWebservice, Webservice)

__all__ = ["VERSION", "AciWebservice", "AksEndpoint", "AksWebservice", "LocalWebservice", "UnknownWebservice",
           "Webservice"]
