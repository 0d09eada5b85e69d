from azureml._not_yet import not_yet_class

AMLResponse = not_yet_class("AMLResponse", 4, "azureml.contrib.services.aml_response")
