from fastapi import APIRouter
from starlette.responses import Response

from runyard.errors import Unauthorized
from runyard.http.context import Use
from runyard.model.runs import RunId

router = APIRouter()


@router.get("/runs/{run_id}")
def run_page(services: Use, run_id: str, key: str = "") -> Response:
    if not services.tokens.opens_page(RunId(run_id), key):
        raise Unauthorized("The key of this page is missing or wrong.")
    return Response(services.runs.get(RunId(run_id)).status.value)
