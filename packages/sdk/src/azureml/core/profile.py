from azureml._not_yet import not_yet_class
from azureml.exceptions import UserErrorException, WebserviceException  # noqa: F401

MIN_PROFILE_CPU = 0.1
MAX_PROFILE_CPU = 3.5
MIN_PROFILE_MEMORY = 0.1
MAX_PROFILE_MEMORY = 15.0

ModelProfile = not_yet_class("ModelProfile", 4, "azureml.core.profile")
