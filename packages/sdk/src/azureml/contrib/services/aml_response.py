from runyard_sdk.scoring.raw_http.response import AMLResponse  # noqa: F401
