"""The one client of the service's API, for nodes and datastores. It loads the standard library alone.

The SDK has a client of its own, for Python 3.6: it has the same verbs and the same table of errors.
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
