"""The service's errors on this side of the wire: the same table of codes, classes and statuses as `runyard.errors`.

`is_retried` marks errors of a request that the service has not processed: it is sent again.
`ServiceUnavailable` has no code on the wire: it says that no service answered at all.
"""


class RunyardError(Exception):
    """`problem` says what is wrong, `hint` the next step, `facts` carry values for programs."""

    code = "internal"
    status = 500
    is_retried = False

    def __init__(self, problem, hint="", **facts):
        super().__init__("{} {}".format(problem, hint).strip())
        self.problem, self.hint, self.facts = problem, hint, facts


class InvalidArgument(RunyardError):
    code, status = "invalid_argument", 400


class BlobsMissing(InvalidArgument):
    """The body names blobs that must be sent first; `facts["sha256"]` lists them."""

    code, status = "blobs_missing", 409


class Unauthorized(RunyardError):
    code, status = "unauthorized", 401


class Forbidden(Unauthorized):
    """The token is good, but not for this."""

    code, status = "forbidden", 403


class NotFound(RunyardError):
    code, status = "not_found", 404


class AlreadyExists(RunyardError):
    code, status = "already_exists", 409


class Conflict(RunyardError):
    code, status = "conflict", 409


class AttemptOver(Conflict):
    """The attempt that the run's token is of has ended or was replaced by another."""

    code, status = "attempt_over", 409


class TooLarge(RunyardError):
    code, status = "too_large", 413


class TooSlow(RunyardError):
    """The body came too slowly, and others waited."""

    code, status, is_retried = "too_slow", 408, True


class NotYet(RunyardError):
    code, status = "not_yet", 501


class StorageFull(RunyardError):
    code, status = "storage_full", 507


class SchemaTooNew(RunyardError):
    code, status = "schema_too_new", 500


class BlobDamaged(RunyardError):
    """The content of a stored file is missing or is not what was stored."""

    code, status = "blob_damaged", 422


class StandingBy(RunyardError):
    """Another service holds the database: this one answers no requests until that one ends."""

    code, status, is_retried = "standing_by", 503, True


class DatabaseAway(RunyardError):
    """The database server of the service takes no connections now: it is down, or starts."""

    code, status, is_retried = "database_away", 503, True


class EnvironmentFailed(RunyardError):
    code, status = "environment_failed", 422


class DataFailed(RunyardError):
    code, status = "data_failed", 422


class SourceChanged(DataFailed):
    """The data is other than when it was listed or pinned."""

    code, status = "source_changed", 409


class AccessDenied(DataFailed):
    """A store refuses the credentials, or an address may not be connected to."""

    code, status = "access_denied", 422


class Unreachable(DataFailed):
    """A store or server did not answer for as long as it was asked."""

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
    """An unknown code stays a RunyardError: a newer service may know more codes."""
    known = BY_CODE.get(body.get("code", ""), RunyardError)
    return known(body.get("problem", ""), hint=body.get("hint", ""), **(body.get("facts") or {}))
