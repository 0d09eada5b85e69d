"""The one reader of http(s) data."""

from runyard.web.guard import check_endpoint
from runyard.web.store import WebStore

__all__ = ["WebStore", "check_endpoint"]
