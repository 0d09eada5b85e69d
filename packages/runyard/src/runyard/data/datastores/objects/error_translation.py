"""Translation of obstore's errors. Their texts are not passed on: they hold URLs with queries, and server responses."""

import re

from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    InvalidPathError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)

from runyard.core.errors import AccessDenied, DataFailed, InvalidArgument, NotFound, RunyardError, Unreachable
from runyard.core.names import quoted_text
from runyard.data.datastores.objects.location import BucketLocation
from runyard.data.datastores.paths import already_exists, past_end, source_changed

OBSTORE_ERRORS = (BaseError, FileNotFoundError, ValueError)
"""Exceptions that a call of obstore can raise."""

_STATUS = re.compile(r"status(?: code)?: (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z0-9]{1,80})</Code>|\"error\" ?: ?\"(\w{1,80})\"")
_NO_CONTAINER = frozenset({"NoSuchBucket", "ContainerNotFound", "FilesystemNotFound", "ContainerBeingDeleted"})
_BAD_CREDENTIALS = frozenset({"InvalidToken", "ExpiredToken", "InvalidAccessKeyId", "invalid_client", "invalid_grant"})
_PAST_END = ("InvalidRangeRequest", "ParseContentRange")
_CAUSES = (
    ("ConnectionRefused", "it refuses connections"),
    ("dns error", "its name cannot be looked up"),
    ("InvalidCertificate", "its certificate is not trusted; SSL_CERT_FILE can name one that is"),
    ("TunnelUnsuccessful", "the proxy, or the rules of this server, do not let anybody through"),
    ("TimedOut", "it is silent"),
    ("ConnectionReset", "it breaks off connections"),
    ("IncompleteMessage", "it breaks off connections"),
)


def translate_error(error: Exception, location: BucketLocation, path: str) -> RunyardError:
    """Return our error for one of obstore's. Only Unreachable is worth a retry."""
    text = str(error)
    status, code = _status(text), _code(text)
    if code in _NO_CONTAINER:
        return no_container(location)
    if isinstance(error, PermissionDeniedError | UnauthenticatedError) or _are_credentials_refused(text, status, code):
        return _denied(location, status, code)
    if isinstance(error, AlreadyExistsError):
        return already_exists(path)
    if isinstance(error, PreconditionError) or status == 412:
        return source_changed(path)
    if isinstance(error, InvalidPathError):
        return _unlistable(location, text)
    if isinstance(error, FileNotFoundError):
        return NotFound(f"There is no file {quoted_text(path)} in {location.shown}.", hint="Check its path.")
    if isinstance(error, ValueError):
        return InvalidArgument(f"{quoted_text(path)} cannot be a path in {location.shown}.", hint="Choose another one.")
    if status == 416 or any(sign in text for sign in _PAST_END):
        return past_end(path)
    if status == 404:
        return no_container(location)
    if 400 <= status < 500 and status not in (408, 429):
        return _refused(location, path, status, code)
    return _unreachable(location, text, status, code)


def no_container(location: BucketLocation) -> NotFound:
    return NotFound(
        f"There is no {location.noun} {location.container!r} at {location.endpoint}.",
        hint="Make it, or check its name.",
    )


def _status(text: str) -> int:
    found = _STATUS.search(text)
    return int(found[1]) if found else 0


def _code(text: str) -> str:
    found = _CODE.search(text)
    return (found[1] or found[2]) if found else ""


def _are_credentials_refused(text: str, status: int, code: str) -> bool:
    asked_for_token = "token request" in text and 400 <= status < 500
    return status in (401, 403) or code in _BAD_CREDENTIALS or asked_for_token


def _denied(location: BucketLocation, status: int, code: str) -> AccessDenied:
    return AccessDenied(
        f"Access to {location.shown} was refused{_answer(status, code)}.",
        hint="Are the credentials right, still valid and allowed to do this? Register the datastore again with others.",
    )


def _refused(location: BucketLocation, path: str, status: int, code: str) -> DataFailed:
    what = f" for {quoted_text(path)}" if path else ""
    return DataFailed(f"A request to {location.shown}{what} was refused{_answer(status, code)}.")


def _unreachable(location: BucketLocation, text: str, status: int, code: str) -> Unreachable:
    cause = next((meaning for sign, meaning in _CAUSES if sign in text), "")
    return Unreachable(
        f"{location.endpoint} does not serve the {location.noun} {location.container!r}"
        f"{_answer(status, code)}{': ' + cause if cause and not status else ''}.",
        hint="Is the server up, and can this machine reach it?",
    )


def _unlistable(location: BucketLocation, text: str) -> InvalidArgument:
    rest = text.partition('Path "')[2]
    ends = [at for mark in ('" contained', '": Encountered') if (at := rest.find(mark)) != -1]
    which = f" {quoted_text(rest[: min(ends)])}" if ends else ""
    return InvalidArgument(
        f"An object in {location.shown} has the name{which}, which cannot be a path: between its slashes is nothing, "
        "'.', '..' or a control character.",
        hint="Rename the object, or list a folder that does not hold it.",
    )


def _answer(status: int, code: str) -> str:
    facts = [f"status {status}"] * bool(status) + [code] * bool(code)
    return f" ({', '.join(facts)})" if facts else ""
