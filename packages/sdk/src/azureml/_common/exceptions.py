from azureml.exceptions import *
