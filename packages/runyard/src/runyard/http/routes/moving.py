from collections.abc import Sequence
from typing import Annotated

from fastapi import Query, Request
from starlette.responses import Response, StreamingResponse

from runyard.core.policy import Action
from runyard.http.answers import Json
from runyard.http.bodies import BodyPieces, take_in
from runyard.http.context import Use, Who
from runyard.http.routing import Media, Routes
from runyard.model.runs import RunId
from runyard.runs.transfer.importing import Imported

routes = Routes(tag="moving")
ARCHIVE = Media("application/x-tar", "Runs with all that belongs to them.")


@routes.get("/export", Action.MOVE_RUNS, ARCHIVE)
def export(services: Use, who: Who, run: Annotated[Sequence[str], Query()] = ()) -> Response:
    """Export ended runs and their children as an archive."""
    pieces = services.run_exports.export(who, [RunId(run_id) for run_id in run])
    return StreamingResponse(pieces, media_type=ARCHIVE.type)


@routes.put("/workspaces/{workspace}/import", Action.MOVE_RUNS, Imported, takes=ARCHIVE)
async def take(request: Request, services: Use, who: Who, workspace: str, pieces: BodyPieces) -> Response:
    """Import the runs of an archive. Safe to repeat."""
    return Json(await take_in(request, lambda: services.run_imports.take(who, workspace, pieces)))
