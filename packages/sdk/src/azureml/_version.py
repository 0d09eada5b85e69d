VERSION = "1.61.0"
"""SDK v1 release whose names this package has; scripts print and compare it."""
