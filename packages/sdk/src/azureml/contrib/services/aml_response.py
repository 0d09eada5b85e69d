from runyard_sdk.scoring.raw_http import AMLResponse  # noqa: F401
