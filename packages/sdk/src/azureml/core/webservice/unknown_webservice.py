from azureml.core.webservice._not_yet_classes import UnknownWebservice, Webservice  # noqa: F401
