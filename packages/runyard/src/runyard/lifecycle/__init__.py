"""Starting the service, finding it again, and stopping it."""

from runyard.lifecycle.starting import answering_services, service_status, start_service, stop_service

__all__ = ["answering_services", "service_status", "start_service", "stop_service"]
