"""Loaded by the Python of every rank. A rank that has raised ends at once, with exit code 1.

Else it would wait in MPI_Finalize, which mpi4py calls at the end of the interpreter, for ranks that wait for it.
All that the script wants done at its end is done before. Runs alone on any Python from 3.6 on.
"""

import atexit
import os
import sys

if False:  # the module is slow to load
    from types import TracebackType


def load_the_environments_own() -> None:
    """This file must not stand in the way of another of its name."""
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
        atexit.register(self._end)  # the first that is registered is the last that is called

    def _show(self, kind: "type[BaseException]", value: BaseException, traceback: "TracebackType | None") -> None:
        self._has_raised = True
        self._shows(kind, value, traceback)

    def _end(self) -> None:
        if self._has_raised:
            from contextlib import suppress  # here, since ranks that end well need not load it

            for stream in (sys.stdout, sys.stderr):
                with suppress(AttributeError, OSError, ValueError):  # closed, or replaced by something else
                    stream.flush()
            os._exit(1)


load_the_environments_own()
if os.environ.get("OMPI_COMM_WORLD_SIZE", "1") != "1":
    EndAtOnce()
