"""Ctrl-C while a run is waited for: the run goes on, and the user is told how to follow or stop it."""

import sys

from azureml.exceptions import ExperimentExecutionException


class WaitInterrupted(ExperimentExecutionException, KeyboardInterrupt):
    """Caught by `except ExperimentExecutionException`, as in SDK v1, and by `except KeyboardInterrupt`."""


def interrupted(run_id):
    """The exception to raise. A script that does not catch it ends with its message and exit code 130."""
    if not isinstance(sys.excepthook, _Hook):
        sys.excepthook = _Hook(sys.excepthook)
    return WaitInterrupted(
        "Interrupted; the run goes on.\nFollow it: runyard runs logs -f {0}; stop it: run.cancel() or "
        "runyard runs cancel {0}".format(run_id))


class _Hook(object):
    """Prints the message alone, without a traceback. Notebooks do not call it."""

    def __init__(self, before):
        self._before = before

    def __call__(self, kind, error, trace):
        if not isinstance(error, WaitInterrupted) or hasattr(sys, "ps1"):
            self._before(kind, error, trace)
            return
        sys.stderr.write("\n" + error.message + "\n")
        raise SystemExit(130)  # the interpreter takes it as the exit code
