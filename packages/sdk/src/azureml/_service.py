"""The facade's client, and the translation of its errors to SDK v1 exceptions."""

import os
from contextlib import contextmanager

from azureml import exceptions as v1
from runyard_sdk.client import Client
from runyard_sdk.errors import RunyardError
from runyard_sdk.transport import Transport

_CLASS_BY_CODE = {
    "invalid_argument": v1.UserErrorException,
    "blobs_missing": v1.UserErrorException,
    "not_found": v1.UserErrorException,
    "already_exists": v1.UserErrorException,
    "conflict": v1.UserErrorException,
    "not_yet": v1.UserErrorException,
    "unauthorized": v1.AuthenticationException,
    "forbidden": v1.AuthenticationException,
    "too_large": v1.SnapshotException,
    "environment_failed": v1.ExperimentExecutionException,
    "data_failed": v1.UserErrorException,
    "source_changed": v1.UserErrorException,
    "access_denied": v1.UserErrorException,
    "unreachable": v1.UserErrorException,
}
_clients = {}
_joined_classes = {}


def client():
    """Client of the service that the environment variables name; cached per process and service."""
    place = tuple(os.environ.get(name) for name in ("RUNYARD_URL", "RUNYARD_TOKEN", "RUNYARD_HOME", "HOME"))
    if place not in _clients:
        _clients[place] = Client(Transport(translate=translated))
    return _clients[place]


def translated(error):
    """Return the error as an exception of SDK v1.

    It stays an instance of its `runyard_sdk.errors` class, so both `except UserErrorException` in user code and `except
    NotFound` in ours catch it.
    """
    if isinstance(error, v1.AzureMLException) or not isinstance(error, RunyardError):
        return error
    found = _joined(type(error), _CLASS_BY_CODE.get(error.code, v1.ServiceException))(error)
    found.__cause__ = error.__cause__
    return found


def as_webservice_error(error):
    """Return the error as a WebserviceException, which v1 raises for models, images and web services."""
    found = _joined(_wire_class(error), v1.WebserviceException)(error)
    found.status_code = error.status
    return found


@contextmanager
def webservice_errors():
    """Context manager: raise errors of the service as WebserviceException."""
    try:
        yield
    except RunyardError as error:
        found = as_webservice_error(error)
        raise found from error.__cause__


def _wire_class(error):
    return next(one for one in type(error).__mro__ if not issubclass(one, v1.AzureMLException))


def _joined(wire, named):
    if (wire, named) not in _joined_classes:
        def __init__(self, error):
            named.__init__(self, error if named is v1.ServiceException else _sentence(error))
            self.problem, self.hint, self.facts = error.problem, error.hint, error.facts

        body = {"__init__": __init__, "__module__": named.__module__}
        _joined_classes[(wire, named)] = type(named.__name__, (named, wire), body)
    return _joined_classes[(wire, named)]


def _sentence(error):
    return "{} {}".format(error.problem, error.hint).strip()
