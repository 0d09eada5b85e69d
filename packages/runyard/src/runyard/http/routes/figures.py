"""Health and figures, for probes and Prometheus: at the root, where such programs look."""

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from runyard.errors import Unauthorized
from runyard.http.answers import Json
from runyard.http.context import Use

router = APIRouter()
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@router.get("/healthz")
async def healthz() -> Response:
    """The process answers. Needs no token, and says nothing else."""
    return Json({"status": "ok"})


@router.get("/readyz")
async def readyz(services: Use) -> Response:
    """Whether it can work: 503 with the reason while it cannot. Needs no token."""
    reason = await services.figures.readiness.why_not()
    if reason:
        return Json({"status": "not ready", "reason": reason}, status_code=503)
    return Json({"status": "ready"})


@router.get("/metrics")
async def metrics(request: Request, services: Use) -> Response:
    """With the owner's token, or the one that `runyard metrics token` prints."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not services.tokens.opens_metrics(token.strip()):
        raise Unauthorized(
            "The token is missing or does not open the figures.",
            hint="Send the one that `runyard metrics token` prints.",
        )
    text = await run_in_threadpool(services.figures.scrape, request.app.state.request_counts)
    return Response(text, headers={"Content-Type": CONTENT_TYPE})
