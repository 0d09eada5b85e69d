from azureml.exceptions import *  # noqa: F403
