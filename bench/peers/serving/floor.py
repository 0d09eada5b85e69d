"""The floor: uvicorn and bare Starlette routes, one that echoes and one that predicts."""

import os

import joblib
import numpy
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

model = joblib.load(os.environ["BENCH_MODEL"])


async def echo(request):
    return Response(await request.body(), media_type="application/json")


async def score(request):
    rows = (await request.json())["data"]
    return JSONResponse(model.predict(numpy.asarray(rows)).tolist())


app = Starlette(routes=[Route("/echo", echo, methods=["POST"]), Route("/score", score, methods=["POST"])])
