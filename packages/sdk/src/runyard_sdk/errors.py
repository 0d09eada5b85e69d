"""Errors of the service: the same table of codes, classes and statuses as `runyard.core.errors`.

`is_retried` marks errors of requests that the service did not process: they are sent again. `ServiceUnavailable` has no
code: no service answered at all.
"""


class RunyardError(Exception):
    """`problem` says what is wrong, `hint` the next step, `facts` hold values for programs."""

    code = "internal"
    status = 500
    is_retried = False

    def __init__(self, problem, hint="", **facts):
        super().__init__("{} {}".format(problem, hint).strip())
        self.problem, self.hint, self.facts = problem, hint, facts


class InvalidArgument(RunyardError):
    code, status = "invalid_argument", 400


class BlobsMissing(InvalidArgument):
    """The body names blobs that must be uploaded first; `facts["sha256"]` lists them."""

    code, status = "blobs_missing", 409


class Unauthorized(RunyardError):
    code, status = "unauthorized", 401


class Forbidden(Unauthorized):
    """The token is valid, but not for this operation."""

    code, status = "forbidden", 403


class NotFound(RunyardError):
    code, status = "not_found", 404


class AlreadyExists(RunyardError):
    code, status = "already_exists", 409


class Conflict(RunyardError):
    code, status = "conflict", 409


class AttemptOver(Conflict):
    """The attempt of the run's token has ended or was replaced."""

    code, status = "attempt_over", 409


class TooLarge(RunyardError):
    code, status = "too_large", 413


class TooSlow(RunyardError):
    """The body arrived too slowly while others waited."""

    code, status, is_retried = "too_slow", 408, True


class NotYet(RunyardError):
    code, status = "not_yet", 501


class StorageFull(RunyardError):
    code, status = "storage_full", 507


class SchemaTooNew(RunyardError):
    code, status = "schema_too_new", 500


class BlobDamaged(RunyardError):
    """The content of a stored file is missing or corrupt."""

    code, status = "blob_damaged", 422


class StandingBy(RunyardError):
    """Another service holds the database: this one serves no requests until that one ends."""

    code, status, is_retried = "standing_by", 503, True


class DatabaseAway(RunyardError):
    """The database of the service accepts no connections: it is down or starting."""

    code, status, is_retried = "database_away", 503, True


class EnvironmentFailed(RunyardError):
    code, status = "environment_failed", 422


class DataFailed(RunyardError):
    code, status = "data_failed", 422


class SourceChanged(DataFailed):
    """The data changed since it was listed or pinned."""

    code, status = "source_changed", 409


class AccessDenied(DataFailed):
    """A store rejects the credentials, or connecting to an address is not allowed."""

    code, status = "access_denied", 422


class Unreachable(DataFailed):
    """A store or server did not answer in time."""

    code, status = "unreachable", 502


class EngineError(RunyardError):
    code, status = "engine", 502


class NoCapacity(EngineError):
    code, status = "no_capacity", 503


class EngineSilent(EngineError):
    code, status = "engine_silent", 503


class ServiceUnavailable(RunyardError):
    code, status = "unavailable", 503


def _tree(root):
    found = {root.code: root}
    for child in root.__subclasses__():
        found.update(_tree(child))
    return found


BY_CODE = _tree(RunyardError)


def from_wire(body):
    """Exception for an error body; an unknown code, of a newer service, is a RunyardError."""
    known = BY_CODE.get(body.get("code", ""), RunyardError)
    return known(body.get("problem", ""), hint=body.get("hint", ""), **(body.get("facts") or {}))
