from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from runyard.errors import AccessDenied, DataFailed, NotFound, RunyardError, SourceChanged, TooLarge
from runyard.web.addresses import Address
from runyard.web.answers import Head
from runyard.web.troubles import Broken

_RETRIED_STATUSES = (408, 425, 429)


def refusal(address: Address, head: Head) -> RunyardError | Broken:
    """Error for an unexpected status: a TransientError if a retry may help."""
    status = head.status
    if status in (404, 410):
        return NotFound(f"There is nothing at {address.shown}: the server answers {status}.", hint="Check the address.")
    if status in (401, 403, 407, 451):
        return AccessDenied(
            f"{address.shown} may not be read: the server answers {status}.",
            hint="Check that it is public, or that the signature in the address is valid still.",
        )
    if status >= 500 or status in _RETRIED_STATUSES:
        return Broken(f"the server answers {status}", after_seconds=_retry_after(head))
    return DataFailed(f"{address.shown} could not be read: the server answers {status}.", hint="Check the address.")


def encoded(address: Address, encoding: str) -> DataFailed:
    return DataFailed(
        f"{address.shown} could not be read: the server sends it with the Content-Encoding {encoding[:40]!r}, "
        "though it was asked for the file as it lies.",
        hint="Have the server send it without, or name another address of the file.",
    )


def source_changed(address: Address) -> SourceChanged:
    return SourceChanged(
        f"{address.shown} is another file than when it was listed.",
        hint="Make a new version of the dataset to use it as it is now.",
    )


def too_large(address: Address, limit: int) -> TooLarge:
    return TooLarge(
        f"{address.shown} is larger than the {limit} bytes that a file may have.",
        hint="Check that its server sends an end, or ask the operator of this server to raise the limit.",
    )


def _retry_after(head: Head) -> float:
    text = head.fields.get("retry-after", "")
    if text.isdecimal():
        return float(text[:9])
    try:
        return max(0.0, (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return 0.0
