from azureml.exceptions import AzureMLException


class HyperDriveException(AzureMLException):
    def __init__(self, exception_message, **kwargs):
        super(HyperDriveException, self).__init__(exception_message, **kwargs)

    @property
    def error_code(self):
        return self._error_code


class HyperDriveConfigException(HyperDriveException):
    """Invalid setting of a sweep."""


class HyperDriveScenarioNotSupportedException(HyperDriveConfigException):
    pass


class HyperDriveNotImplementedException(HyperDriveScenarioNotSupportedException):
    pass


class HyperDriveRehydrateException(HyperDriveException):
    pass


class HyperDriveServiceException(HyperDriveException):
    pass
