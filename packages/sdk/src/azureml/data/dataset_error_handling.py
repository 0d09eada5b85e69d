from azureml.exceptions import AzureMLException, UserErrorException  # noqa: F401


class DatasetValidationError(UserErrorException):
    def __init__(self, message, exception=None):
        super(DatasetValidationError, self).__init__(message, inner_exception=exception)


class DatasetExecutionError(UserErrorException):
    def __init__(self, message, exception):
        super(DatasetExecutionError, self).__init__(message, inner_exception=exception)
