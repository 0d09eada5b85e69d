VERSION = "1.61.0"
"""The SDK v1 release whose surface this facade has; scripts print and compare it."""
