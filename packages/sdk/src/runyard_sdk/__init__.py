"""Client of a Runyard service, and the journal that a run writes. Standard library only, Python 3.6 and newer."""

__version__ = "0.1.0"
"""Version of both packages; pyproject.toml of `runyard` repeats it twice, held equal by tests/release."""
WIRE = "1"
API = 3
"""Incremented with every release or build whose routes or bodies differ; service and client exchange it."""
