from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response, StreamingResponse

from runyard.http.answers import Json
from runyard.http.auth import owner_only
from runyard.http.bodies import BodyPieces, take_in
from runyard.http.context import Use
from runyard.model.runs import RunId

router = APIRouter(dependencies=[Depends(owner_only)])


@router.get("/export")
def export(services: Use, run: Annotated[Sequence[str], Query()] = ()) -> Response:
    pieces = services.run_exports.export([RunId(run_id) for run_id in run])
    return StreamingResponse(pieces, media_type="application/x-tar")


@router.put("/workspaces/{workspace}/import")
async def take(request: Request, services: Use, workspace: str, pieces: BodyPieces) -> Response:
    return Json(asdict(await take_in(request, lambda: services.run_imports.take(workspace, pieces))))
