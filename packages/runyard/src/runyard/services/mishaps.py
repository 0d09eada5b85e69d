import contextlib
import sys
import traceback


def print_mishap() -> None:
    """The traceback of the exception that is being handled, on standard error. Never raises: that may be a file on a
    disk that is full, and who handles a mishap has to go on."""
    with contextlib.suppress(OSError, ValueError):
        traceback.print_exc(file=sys.stderr)
