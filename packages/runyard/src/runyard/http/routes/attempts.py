from fastapi import APIRouter, Depends
from starlette.responses import Response

from runyard.http.answers import Json
from runyard.http.auth import attempt_access
from runyard.http.bodies import JsonBody
from runyard.http.context import Use
from runyard.model.runs import AttemptId

router = APIRouter(prefix="/attempts/{attempt_id}", dependencies=[Depends(attempt_access)])


@router.post("/report")
def report(services: Use, attempt_id: str, body: JsonBody) -> Response:
    return Json(services.mover.report(AttemptId(attempt_id), body))
