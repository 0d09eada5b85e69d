"""Programs that run in build containers, on the image's Python: each stands by itself, on the standard library of
Python 3.6."""
