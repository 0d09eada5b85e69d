"""Logs of Runyard's own processes: service, agent, supervisors, gateway, and the access log of the service.

Logs are JSON lines in `HOME/process-logs/`, written through the standard logging module. A log that cannot be written
never stops the process that writes it.
"""

from runyard.process_logs.setup import LOG_FOLDER, configure_logging, label_lines, log_level

__all__ = ["LOG_FOLDER", "configure_logging", "label_lines", "log_level"]
