from runyard_sdk import API
from runyard_sdk import __version__ as VERSION

__all__ = ["API", "VERSION", "WIRE"]

WIRE = 1
