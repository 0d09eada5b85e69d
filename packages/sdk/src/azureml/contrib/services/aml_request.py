from runyard_sdk.scoring.raw_http.requests import request_class
from runyard_sdk.scoring.raw_http.response import rawhttp  # noqa: F401

AMLRequest = request_class()
