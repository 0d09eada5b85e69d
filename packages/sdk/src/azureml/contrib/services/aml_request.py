from runyard_sdk.scoring.raw_http import rawhttp  # noqa: F401
from runyard_sdk.scoring.raw_requests import request_class

AMLRequest = request_class()
