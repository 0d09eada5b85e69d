"""Starting the service, finding it again, and stopping it."""

from runyard.lifecycle.starting import service_status, start_service, stop_service

__all__ = ["service_status", "start_service", "stop_service"]
