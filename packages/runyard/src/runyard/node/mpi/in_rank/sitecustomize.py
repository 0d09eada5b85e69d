"""Loaded by the Python of every rank: a rank that ends by an exception exits at once, with code 1.

Otherwise it would hang in MPI_Finalize, which mpi4py calls at exit, waiting for ranks that wait for it. The script's
own exit handlers run before. Runs alone on any Python from 3.6 on.
"""

import atexit
import os
import sys

if False:  # the module is slow to load
    from types import TracebackType


def load_the_environments_own() -> None:
    """Import the environment's own sitecustomize, which this file hides."""
    here, own = os.path.dirname(os.path.abspath(__file__)), sys.modules.pop("sitecustomize")
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != here]
    try:
        __import__("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        sys.modules["sitecustomize"] = own


class EndAtOnce:
    def __init__(self) -> None:
        self._shows, self._has_raised = sys.excepthook, False
        sys.excepthook = self._show
        atexit.register(self._end)  # registered first, so called last

    def _show(self, kind: "type[BaseException]", value: BaseException, traceback: "TracebackType | None") -> None:
        self._has_raised = True
        self._shows(kind, value, traceback)

    def _end(self) -> None:
        if self._has_raised:
            from contextlib import suppress  # here: ranks that succeed need not load it

            for stream in (sys.stdout, sys.stderr):
                with suppress(AttributeError, OSError, ValueError):  # closed, or replaced by something else
                    stream.flush()
            os._exit(1)


load_the_environments_own()
if os.environ.get("OMPI_COMM_WORLD_SIZE", "1") != "1":
    EndAtOnce()
