"""The exception tree of SDK v1. Nearly everything stands directly under AzureMLException.

    AzureMLException
    ├── UserErrorException
    │   └── AuthenticationException
    ├── ActivityFailedException, ExperimentExecutionException, RunEnvironmentException
    ├── ComputeTargetException, RunConfigurationException, TrainingException, ParallelRunException
    ├── ModelNotFoundException, ModelPathNotFoundException, WebserviceException
    ├── WorkspaceException, WorkspacePrivateEndpointException, ProjectSystemException
    ├── SnapshotException, DatasetTimestampMissingError, DiscoveryUrlNotFoundException
    ├── AzureMLAggregatedException
    └── ServiceException
"""

import json

__all__ = [
    "ActivityFailedException",
    "AuthenticationException",
    "AzureMLAggregatedException",
    "AzureMLException",
    "ComputeTargetException",
    "DatasetTimestampMissingError",
    "DiscoveryUrlNotFoundException",
    "ExperimentExecutionException",
    "ModelNotFoundException",
    "ModelPathNotFoundException",
    "ParallelRunException",
    "ProjectSystemException",
    "RunConfigurationException",
    "RunEnvironmentException",
    "ServiceException",
    "SnapshotException",
    "TrainingException",
    "UserErrorException",
    "WebserviceException",
    "WorkspaceException",
    "WorkspacePrivateEndpointException",
]


class AzureMLException(Exception):
    """`message` is the text for people; `inner_exception` the cause, if any."""

    _error_code = "SystemError"

    def __init__(self, exception_message, inner_exception=None, target=None, details=None, message_format=None,
                 message_parameters=None, reference_code=None, **kwargs):
        super().__init__(exception_message)
        self._message = exception_message
        self._inner_exception = inner_exception
        self._target = target
        self._details = details
        self._message_format = message_format
        self._message_parameters = message_parameters
        self._reference_code = reference_code

    @property
    def message(self):
        return self._message

    @message.setter
    def message(self, value):
        self._message = value

    @property
    def inner_exception(self):
        return self._inner_exception

    @inner_exception.setter
    def inner_exception(self, value):
        self._inner_exception = value

    def print_stacktrace(self):
        import traceback

        traceback.print_exc()

    def _serialize_json(self, indent=None):
        error = {"code": self._error_code, "message": self._message}
        optional = {"target": self._target, "details": self._details, "messageFormat": self._message_format,
                    "messageParameters": self._message_parameters, "referenceCode": self._reference_code}
        error.update((key, value) for key, value in optional.items() if value is not None)
        return json.dumps({"error": error}, indent=indent, default=str)

    def __str__(self):
        return "{}:\n\tMessage: {}\n\tInnerException {}\n\tErrorResponse \n{}".format(
            type(self).__name__, self._message, self._inner_exception, self._serialize_json(indent=4))

    def __repr__(self):
        return str(self)


class UserErrorException(AzureMLException):
    """An argument of the caller is invalid."""

    _error_code = "UserError"

    def __init__(self, exception_message, **kwargs):
        super().__init__(exception_message, **kwargs)


class AuthenticationException(UserErrorException):
    def __init__(self, exception_message, **kwargs):
        super().__init__(exception_message, **kwargs)


class ActivityFailedException(AzureMLException):
    """A run that was waited for failed. `error_details` is the run's error as text or dict."""

    _error_code = "UserError"

    def __init__(self, error_details, **kwargs):
        text = error_details if isinstance(error_details, str) else json.dumps(error_details, indent=4, default=str)
        super().__init__("Activity Failed:\n{}".format(text), **kwargs)


class ExperimentExecutionException(AzureMLException):
    def __init__(self, exception_message, **kwargs):
        super().__init__(exception_message, **kwargs)


class RunEnvironmentException(AzureMLException):
    """This process is not part of a run."""

    def __init__(self, **kwargs):
        message = kwargs.pop("exception_message", None) or (
            "This process does not run inside a submitted run: the variables AZUREML_RUN_ID and its kin are not set. "
            "Submit the script with Experiment.submit, or call Run.get_context(allow_offline=True).")
        super().__init__(message, **kwargs)


class ComputeTargetException(AzureMLException):
    def __init__(self, exception_message, **kwargs):
        super().__init__(exception_message, **kwargs)


class RunConfigurationException(AzureMLException):
    def __init__(self, exception_message, **kwargs):
        super().__init__(exception_message, **kwargs)


class TrainingException(AzureMLException):
    def __init__(self, exception_message, **kwargs):
        super().__init__(exception_message, **kwargs)


class ParallelRunException(AzureMLException):
    def __init__(self, exception_message, code=None, delay_seconds=0, **kwargs):
        super().__init__(exception_message, **kwargs)
        self.code = code
        self.delay_seconds = delay_seconds


class ModelNotFoundException(AzureMLException):
    def __init__(self, exception_message, logger=None, **kwargs):
        super().__init__(exception_message, **kwargs)


class ModelPathNotFoundException(AzureMLException):
    def __init__(self, exception_message, logger=None, **kwargs):
        super().__init__(exception_message, **kwargs)


class WebserviceException(AzureMLException):
    def __init__(self, exception_message, status_code=None, logger=None, **kwargs):
        super().__init__(exception_message, **kwargs)
        self.status_code = status_code


class WorkspaceException(AzureMLException):
    def __init__(self, exception_message, found_multiple=False, **kwargs):
        super().__init__(exception_message, **kwargs)
        self.found_multiple = found_multiple


class WorkspacePrivateEndpointException(AzureMLException):
    def __init__(self, exception_message, found_multiple=False, **kwargs):
        super().__init__(exception_message, **kwargs)
        self.found_multiple = found_multiple


class ProjectSystemException(AzureMLException):
    def __init__(self, exception_message, **kwargs):
        super().__init__(exception_message, **kwargs)


class SnapshotException(AzureMLException):
    def __init__(self, exception_message, **kwargs):
        super().__init__(exception_message, **kwargs)


class DatasetTimestampMissingError(AzureMLException):
    def __init__(self, error_details, **kwargs):
        super().__init__(error_details, **kwargs)


class DiscoveryUrlNotFoundException(AzureMLException):
    def __init__(self, discovery_key, **kwargs):
        super().__init__("No service address is known for {!r}.".format(discovery_key), **kwargs)


class AzureMLAggregatedException(AzureMLException):
    def __init__(self, exceptions_list, **kwargs):
        self._exceptions = list(exceptions_list)
        super().__init__("\n".join(str(error) for error in self._exceptions), **kwargs)


class ServiceException(AzureMLException):
    """The service rejected a request or failed. `status_code` is the HTTP status, `details` the facts of the response.
    """

    def __init__(self, error_response_exception, **kwargs):
        super().__init__(str(error_response_exception), inner_exception=error_response_exception, **kwargs)
        self.status_code = getattr(error_response_exception, "status", None)
        self.details = getattr(error_response_exception, "facts", None)
