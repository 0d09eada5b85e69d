from azureml._not_yet import not_yet_class

AMLRequest = not_yet_class("AMLRequest", 4, "azureml.contrib.services.aml_request")
rawhttp = not_yet_class("rawhttp", 4, "azureml.contrib.services.aml_request")
