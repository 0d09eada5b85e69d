from runyard_sdk import API

__all__ = ["API", "VERSION", "WIRE"]

VERSION = "0.1.0"
WIRE = 1
