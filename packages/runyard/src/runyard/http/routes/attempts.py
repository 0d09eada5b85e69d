from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from runyard.http.answers import Json
from runyard.http.auth import attempt_access, is_from_outside, own_attempt
from runyard.http.bodies import JsonBody
from runyard.http.context import Use
from runyard.http.fields import flag, text, whole_number
from runyard.http.records import shown_asset
from runyard.model.runs import AttemptId
from runyard.planning.data_json import data_to_json
from runyard.planning.package_settings import settings_to_json

router = APIRouter(prefix="/attempts/{attempt_id}", dependencies=[Depends(attempt_access)])
reports = APIRouter(prefix="/attempts/{attempt_id}", dependencies=[Depends(own_attempt)])


@reports.post("/report")
def report(services: Use, attempt_id: str, body: JsonBody) -> Response:
    """Answered for attempts that are over, too: the answer tells them to stop."""
    return Json(services.mover.report(AttemptId(attempt_id), body))


@router.get("/data")
def data(services: Use, request: Request, attempt_id: str, stores: bool = False, apart: bool = False) -> Response:
    """With credentials, which is why nobody else is let in. `apart`: the node does not see the service's files."""
    is_apart = apart or is_from_outside(request)
    found = services.attempt_data.of_attempt(AttemptId(attempt_id), stores_alone=stores, is_apart=is_apart)
    answer = Json(data_to_json(found))
    answer.headers["Cache-Control"] = "no-store"
    return answer


@router.get("/packages")
def packages(services: Use, attempt_id: str) -> Response:
    """With passwords, for a build that goes on."""
    found = services.attempt_packages.of_attempt(AttemptId(attempt_id))
    told = {"registries": found.registries, "addresses": found.addresses}
    answer = Json({"settings": settings_to_json(found.settings), **told})
    answer.headers["Cache-Control"] = "no-store"
    return answer


@router.post("/outputs")
def outputs(services: Use, attempt_id: str, body: JsonBody) -> Response:
    saved = services.outputs.complete(
        AttemptId(attempt_id),
        text(body, "name"),
        files=whole_number(body, "files"),
        registers=flag(body, "registers", default=True),
    )
    return Json(shown_asset(saved))
