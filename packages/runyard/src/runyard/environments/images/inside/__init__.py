"""Programs that run in build containers on the image's Python: single files that need only the standard library of
Python 3.6."""
