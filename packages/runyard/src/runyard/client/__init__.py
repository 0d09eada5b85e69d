"""Client of the service's API for nodes and datastores. It needs only the standard library.

The SDK has its own client for Python 3.6, with the same verbs and the same table of errors.
"""

from runyard.client.address import ServiceAddress, certificates_file, service_address
from runyard.client.retry import Backoff, ServiceUnavailable, ServiceUntrusted, retry_while_unavailable
from runyard.client.service_client import (
    ConnectionPool,
    ServiceClient,
    StreamedResponse,
    byte_range,
    decoded,
    quoted,
)

__all__ = [
    "Backoff",
    "ConnectionPool",
    "ServiceAddress",
    "ServiceClient",
    "ServiceUnavailable",
    "ServiceUntrusted",
    "StreamedResponse",
    "byte_range",
    "certificates_file",
    "decoded",
    "quoted",
    "retry_while_unavailable",
    "service_address",
]
