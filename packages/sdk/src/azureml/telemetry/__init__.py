"""Collects nothing; exists because scripts call it."""

__all__ = ["set_diagnostics_collection"]


def set_diagnostics_collection(send_diagnostics=True, verbosity=20, reason="", path=None):
    """No effect."""
