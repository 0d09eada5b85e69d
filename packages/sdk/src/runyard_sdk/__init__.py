"""The client of a Runyard service, and the journal a run writes. Standard library only, Python 3.6 and newer."""

__version__ = "0.1.0"
WIRE = "1"
