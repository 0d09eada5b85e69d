"""Every error the platform raises on purpose, with the code that names it on the wire and the status of its answer.

Those marked * are of a request that the service has not processed: every client sends it again by itself
(`is_retried`). `runyard_sdk.errors` has the same table; a test compares the two.

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
    """`problem` says what is wrong, `hint` the next step, `facts` carry values for programs."""

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500
    is_retried: ClassVar[bool] = False

    def __init__(self, problem: str, *, hint: str = "", **facts: Any) -> None:
        super().__init__(f"{problem} {hint}".strip())
        self.problem, self.hint, self.facts = problem, hint, facts


class InvalidArgument(RunyardError):
    """What the user gave cannot be right."""

    code, status = "invalid_argument", 400


class BlobsMissing(InvalidArgument):
    """The body names blobs that must be sent first; `facts["sha256"]` lists them."""

    code, status = "blobs_missing", 409


class Unauthorized(RunyardError):
    code, status = "unauthorized", 401


class Forbidden(Unauthorized):
    """The token is good, but not for this: asking again with it is of no use."""

    code, status = "forbidden", 403


class NotFound(RunyardError):
    code, status = "not_found", 404


class AlreadyExists(RunyardError):
    code, status = "already_exists", 409


class Conflict(RunyardError):
    """Somebody else changed it first, or the step is not allowed from here."""

    code, status = "conflict", 409


class AttemptOver(Conflict):
    """The attempt of this node's token has ended or was replaced by another: nothing of it is wanted any more."""

    code, status = "attempt_over", 409


class TooLarge(RunyardError):
    code, status = "too_large", 413


class TooSlow(RunyardError):
    """The body came too slowly, and others waited; worth trying again."""

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
    """The database server takes no connections now: it is down, or starts."""

    code, status, is_retried = "database_away", 503, True


class EnvironmentFailed(RunyardError):
    code, status = "environment_failed", 422


class BlobDamaged(RunyardError):
    """The content of a stored file is missing or is not what was stored."""

    code, status = "blob_damaged", 422


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
    """The target is full; worth trying again later."""

    code, status = "no_capacity", 503


class EngineSilent(EngineError):
    """The engine is there and does not answer now; what was asked of it may still be done. Ask again later."""

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
    """An unknown code stays a RunyardError: a newer peer may know more codes."""
    known = BY_CODE.get(body.get("code", ""), RunyardError)
    return known(body.get("problem", ""), hint=body.get("hint", ""), **body.get("facts", {}))
