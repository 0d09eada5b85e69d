"""Start, find and stop the service of a home."""

from runyard.server.lifecycle.control import service_status, start_service, stop_service

__all__ = ["service_status", "start_service", "stop_service"]
