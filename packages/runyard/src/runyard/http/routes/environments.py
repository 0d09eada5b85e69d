from dataclasses import astuple

from fastapi import APIRouter, Depends
from starlette.responses import Response

from runyard.errors import InvalidArgument
from runyard.http.answers import Json, Nothing
from runyard.http.auth import attempt_access
from runyard.http.bodies import JsonBody
from runyard.http.context import Use
from runyard.http.fields import text
from runyard.model.runs import AttemptId
from runyard.services.environments import KeptEnvironment, KeptWheel

router = APIRouter(prefix="/attempts/{attempt_id}", dependencies=[Depends(attempt_access)])


@router.get("/environment")
def get_environment(services: Use, attempt_id: str, key: str) -> Response:
    kept = services.environments.get(AttemptId(attempt_id), key)
    return Json({"key": key, "python": kept.python, "lock": kept.lock, "wheels": [*map(astuple, kept.wheels)]})


@router.post("/environment")
def put_environment(services: Use, attempt_id: str, body: JsonBody) -> Response:
    made = KeptEnvironment(text(body, "python"), text(body, "lock"), _wheels(body.get("wheels", [])))
    services.environments.put(AttemptId(attempt_id), text(body, "key"), made)
    return Nothing()


def _wheels(rows: object) -> tuple[KeptWheel, ...]:
    if not isinstance(rows, list) or not all(_is_row(row) for row in rows):
        raise InvalidArgument("wheels must be a list of [key, file name, sha256].")
    return tuple(KeptWheel(*row) for row in rows)


def _is_row(row: object) -> bool:
    return isinstance(row, list) and len(row) == 3 and all(isinstance(field, str) for field in row)
