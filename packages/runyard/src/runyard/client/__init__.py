"""Client of the service's API for nodes and datastores. It needs only the standard library.

The SDK has its own client for Python 3.6, with the same verbs and the same table of errors.
"""

from runyard.client.address import ServiceAddress, address_in, certificates_file
from runyard.client.patience import Patience, patiently
from runyard.client.refusals import ServiceAway, ServiceUntrusted
from runyard.client.service_client import Answer, ServiceClient, byte_range, decoded, quoted

__all__ = [
    "Answer",
    "Patience",
    "ServiceAddress",
    "ServiceAway",
    "ServiceClient",
    "ServiceUntrusted",
    "address_in",
    "byte_range",
    "certificates_file",
    "decoded",
    "patiently",
    "quoted",
]
