"""Routes for the supervisors of an attempt."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import Request
from pydantic import BeforeValidator, ConfigDict, Field
from starlette.responses import Response

from runyard.core.data_json import data_to_json
from runyard.core.definitions.node_report import NodeReport
from runyard.core.policy import Action
from runyard.core.records.runs import AttemptId
from runyard.environments.workspace.locks import StoredEnvironment, StoredWheel
from runyard.environments.workspace.package_settings import AttemptBuildSettings
from runyard.server.api.records import AssetAnswer, DataWire, asset_answer
from runyard.server.auth import is_remote
from runyard.server.http.models import Body, Count
from runyard.server.http.responses import Json, NoContent, not_cached
from runyard.server.http.routes import ParsedBody, Routes
from runyard.server.services import CallerDep, ServicesDep

routes = Routes("/attempts/{attempt_id}", tag="attempts")


class ReportBody(Body):
    """Report of a supervisor. The state decides which fields it has; unknown fields of newer supervisors are kept."""

    # NodeReport checks the fields; this model describes them. A test compares the two.
    model_config = ConfigDict(extra="allow")

    state: str = Field(examples=["running"])
    node: int = 0
    message: str | None = None
    environment_key: str | None = None
    lock: str | None = None
    started_at: str | None = Field(None, examples=["2026-11-16T10:00:00+00:00"])
    outcome: Literal["completed", "failed", "canceled"] | None = None
    error: dict[str, Any] | None = None
    warnings: list[Any] | None = None
    phase: str | None = None
    rank: int | None = None
    exit_code: int | None = None
    signal: int | None = None
    oom: bool | None = None
    lost: bool | None = None
    tail: str | None = None
    log: str | None = None
    failed_at: str | None = None
    failed_node: int | None = None
    exits: dict[str, list[int | None]] | None = None
    last_lines: dict[str, dict[str, Any]] | None = None
    outputs: dict[str, int] | None = None
    undelivered: int | None = None


Report = Annotated[NodeReport, ParsedBody(ReportBody, NodeReport.parse)]


@dataclass(frozen=True)
class ReportAnswer:
    cancel: bool
    """Whether the attempt must stop."""
    end_as: str
    """Outcome to report when it stops because of `cancel`."""
    roster: Sequence[Mapping[str, Any]] | None
    """Addresses and ports of all nodes of the attempt, by node; null until all are ready."""


class OutputBody(Body):
    name: str = Field(examples=["predictions"])
    files: Count = Field(examples=[3])
    registers: bool = True


def _wheel(row: Any) -> Any:
    if not isinstance(row, list) or len(row) != 3 or not all(isinstance(field, str) for field in row):
        raise ValueError("must be [key, file name, sha256]")
    return StoredWheel(*row)


Wheel = Annotated[StoredWheel, BeforeValidator(_wheel, json_schema_input_type=tuple[str, str, str])]


class EnvironmentBody(Body):
    key: str
    python: str = Field(examples=["3.11"])
    lock: str
    wheels: list[Wheel] = Field([])


@dataclass(frozen=True)
class BuiltEnvironmentAnswer:
    key: str
    python: str
    lock: str
    wheels: Sequence[tuple[str, str, str]]
    """Each [key, file name, sha256]."""


@routes.post("/report", Action.REPORT_ATTEMPT, ReportAnswer)
def report(services: ServicesDep, who: CallerDep, attempt_id: str, body: Report) -> Response:
    """Store a supervisor's report. Attempts that are over get an answer too, which tells them to stop."""
    answer = services.controller.report(who, AttemptId(attempt_id), body)
    return Json(ReportAnswer(answer.cancel, answer.end_as, answer.roster))


@routes.get("/data", Action.SERVE_ATTEMPT, DataWire)
def data(
    services: ServicesDep, who: CallerDep, request: Request, attempt_id: str, stores: bool = False, apart: bool = False
) -> Response:
    """The data of an attempt, with credentials. `apart`: the node shares no disk with the service."""
    is_apart = apart or is_remote(request)
    found = services.attempt_data.of_attempt(who, AttemptId(attempt_id), stores_alone=stores, is_apart=is_apart)
    return not_cached(Json(data_to_json(found)))


@routes.get("/packages", Action.SERVE_ATTEMPT, AttemptBuildSettings)
def packages(services: ServicesDep, who: CallerDep, attempt_id: str) -> Response:
    """Package sources with passwords, for an environment that is being built."""
    return not_cached(Json(services.attempt_packages.of_attempt(who, AttemptId(attempt_id))))


@routes.post("/outputs", Action.SERVE_ATTEMPT, AssetAnswer)
def outputs(services: ServicesDep, who: CallerDep, attempt_id: str, body: OutputBody) -> Response:
    """Save an output, complete on its datastore, as a dataset."""
    saved = services.outputs.complete(who, AttemptId(attempt_id), body.name, files=body.files, registers=body.registers)
    return Json(asset_answer(saved))


@routes.get("/environment", Action.SERVE_ATTEMPT, BuiltEnvironmentAnswer)
def get_environment(services: ServicesDep, who: CallerDep, attempt_id: str, key: str = "") -> Response:
    """The lock and compiled wheels of an environment that another node has built."""
    kept = services.environments.get(who, AttemptId(attempt_id), key)
    wheels = [(wheel.key, wheel.file_name, wheel.sha256) for wheel in kept.wheels]
    return Json(BuiltEnvironmentAnswer(key, kept.python, kept.lock, wheels))


@routes.post("/environment", Action.SERVE_ATTEMPT, None)
def put_environment(services: ServicesDep, who: CallerDep, attempt_id: str, body: EnvironmentBody) -> Response:
    """Store the lock and compiled wheels of an environment, for other nodes."""
    made = StoredEnvironment(body.python, body.lock, tuple(body.wheels))
    services.environments.put(who, AttemptId(attempt_id), body.key, made)
    return NoContent()
