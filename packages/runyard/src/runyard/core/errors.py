"""Every error that the platform raises on purpose, with its code on the wire and its HTTP status.

An error marked * means that the service did not process the request: every client sends it again (`is_retried`).
`runyard_sdk.errors` has the same table; a test compares the two.

RunyardError                internal           500
├── InvalidArgument         invalid_argument   400
│   └── BlobsMissing        blobs_missing      409
├── Unauthorized            unauthorized       401
│   └── Forbidden           forbidden          403
├── NotFound                not_found          404
├── AlreadyExists           already_exists     409
├── Conflict                conflict           409
│   └── AttemptOver         attempt_over       409
├── TooLarge                too_large          413
├── TooSlow *               too_slow           408
├── NotYet                  not_yet            501
├── StorageFull             storage_full       507
├── SchemaTooNew            schema_too_new     500
├── StandingBy *            standing_by        503
├── DatabaseAway *          database_away      503
├── EnvironmentFailed       environment_failed 422
├── BlobDamaged             blob_damaged       422
├── DataFailed              data_failed        422
│   ├── SourceChanged       source_changed     409
│   ├── AccessDenied        access_denied      422
│   └── Unreachable         unreachable        502
└── EngineError             engine             502
    ├── NoCapacity          no_capacity        503
    └── EngineSilent        engine_silent      503
"""

from collections.abc import Mapping
from typing import Any, ClassVar

Json = dict[str, Any]


class RunyardError(Exception):
    """Root of the tree. `problem` says what is wrong, `hint` the next step; `facts` hold values for programs."""

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500
    is_retried: ClassVar[bool] = False

    def __init__(self, problem: str, *, hint: str = "", **facts: Any) -> None:
        super().__init__(f"{problem} {hint}".strip())
        self.problem, self.hint, self.facts = problem, hint, facts


class InvalidArgument(RunyardError):
    """An argument of the user is not valid."""

    code, status = "invalid_argument", 400


class BlobsMissing(InvalidArgument):
    """The body names blobs that the client must upload first; `facts["sha256"]` lists them."""

    code, status = "blobs_missing", 409


class Unauthorized(RunyardError):
    code, status = "unauthorized", 401


class Forbidden(Unauthorized):
    """The token is valid but does not allow this action; a retry with it does not help."""

    code, status = "forbidden", 403


class NotFound(RunyardError):
    code, status = "not_found", 404


class AlreadyExists(RunyardError):
    code, status = "already_exists", 409


class Conflict(RunyardError):
    """Another writer changed the record first, or its state does not allow this step."""

    code, status = "conflict", 409


class AttemptOver(Conflict):
    """The attempt of this token has ended or was replaced by another; the service takes nothing more from it."""

    code, status = "attempt_over", 409


class TooLarge(RunyardError):
    code, status = "too_large", 413


class TooSlow(RunyardError):
    """The body arrived too slowly while other requests waited; worth trying again."""

    code, status, is_retried = "too_slow", 408, True


class NotYet(RunyardError):
    """A part of the SDK that this version of Runyard does not have."""

    code, status = "not_yet", 501


class StorageFull(RunyardError):
    code, status = "storage_full", 507


class SchemaTooNew(RunyardError):
    code, status = "schema_too_new", 500


class StandingBy(RunyardError):
    """Another service holds the database's lease, so this one writes nothing."""

    code, status, is_retried = "standing_by", 503, True


class DatabaseAway(RunyardError):
    """The database server accepts no connections: it is down or still starting."""

    code, status, is_retried = "database_away", 503, True


class EnvironmentFailed(RunyardError):
    code, status = "environment_failed", 422


class BlobDamaged(RunyardError):
    """The content of a stored file is missing or was altered."""

    code, status = "blob_damaged", 422


class DataFailed(RunyardError):
    code, status = "data_failed", 422


class SourceChanged(DataFailed):
    """The data has changed since it was listed or pinned."""

    code, status = "source_changed", 409


class AccessDenied(DataFailed):
    """A store refused the credentials, or the network rules forbid the address."""

    code, status = "access_denied", 422


class Unreachable(DataFailed):
    """A store or server did not answer within the time for retries."""

    code, status = "unreachable", 502


class EngineError(RunyardError):
    code, status = "engine", 502


class NoCapacity(EngineError):
    """The target is full; worth trying again later."""

    code, status = "no_capacity", 503


class EngineSilent(EngineError):
    """The engine exists but does not answer now; it may still carry out the request. Ask again later."""

    code, status = "engine_silent", 503


def _tree(root: type[RunyardError]) -> dict[str, type[RunyardError]]:
    found = {root.code: root}
    for child in root.__subclasses__():
        found.update(_tree(child))
    return found


BY_CODE: Mapping[str, type[RunyardError]] = _tree(RunyardError)


def to_wire(error: RunyardError) -> Json:
    return {"code": error.code, "problem": error.problem, "hint": error.hint, "facts": error.facts}


def from_wire(body: Json) -> RunyardError:
    """Rebuild the error from its JSON. An unknown code becomes a RunyardError: a newer peer may know more codes."""
    known = BY_CODE.get(body.get("code", ""), RunyardError)
    return known(body.get("problem", ""), hint=body.get("hint", ""), **body.get("facts", {}))
