"""Watching a run and ending it."""

import sys
import warnings

from azureml.core._run_details import details_of, log_addresses
from azureml.exceptions import ActivityFailedException
from runyard_sdk.follow import follow

TERMINAL_STATES = ("Completed", "Failed", "Canceled")
_WAIT_SECONDS = 60


class RunLife:
    def get_status(self):
        """The status now."""
        return self._fresh()["status"]

    @property
    def status(self):
        """The status as last seen by this object; get_status() asks anew."""
        return self._record["status"]

    def get_details(self):
        """What is known of the run, as a dict of camelCase keys."""
        record = self._fresh()
        names = record.get("log_files")
        names = self._log_names() if names is None else names
        addresses = log_addresses(self._client.transport.address, self._path, names)
        return details_of(record, addresses, self.experiment.workspace)

    def get_details_with_logs(self):
        """get_details() with the text of each log in place of its address."""
        details = self.get_details()
        details["logFiles"] = {name: self._log_text(name) for name in details["logFiles"]}
        return details

    def get_detailed_status(self):
        """`{"status", "details"}`; the details say what a waiting run waits for."""
        record = self._fresh()
        return {"status": record["status"], "details": record.get("message") or ""}

    def wait_for_completion(self, show_output=False, wait_post_processing=False, raise_on_error=True):
        """Wait until the run has ended, its outputs included, and return get_details().

        `show_output` prints the log as it grows. A failed run raises ActivityFailedException unless told not to.
        Ctrl-C raises an ExperimentExecutionException that is a KeyboardInterrupt too; the run goes on. A script that
        does not catch it ends with two lines and exit code 130.
        """
        try:
            if show_output:
                self._stream(sys.stdout)
            else:
                self._wait()
                self._warn()
        except KeyboardInterrupt:
            from azureml.core._interruption import interrupted

            raise interrupted(self.id) from None
        details = self.get_details()
        if raise_on_error and details["status"] == "Failed":
            import json

            raise ActivityFailedException(error_details=json.dumps(details.get("error") or {}, indent=4))
        return details

    def cancel(self):
        """Ask for the run to be stopped; quiet when it has ended."""
        self._record = self._client.post_again(self._path + "/cancel")

    def start(self):
        """Quiet: a run of this service starts by itself."""

    def complete(self, _set_status=True):
        """Store what is still on its way and end the run as Completed; a submitted one is stopped first."""
        self._finish("Completed" if _set_status else None)

    def fail(self, error_details=None, error_code=None, _set_status=True):
        """Record the error and end the run as Failed; a submitted one is stopped first."""
        error = error_of(error_details, error_code)
        self._finish("Failed" if _set_status else None, error)

    def flush(self, timeout_seconds=300):
        """Wait until everything logged through this object is stored."""
        if self._has_recorder:
            self._recorder.flush(timeout_seconds)

    def clean(self):
        """Quiet: the working folder of a run is removed by the node."""

    def _finish(self, status, error=None):
        self._store_tracked()
        if self._has_recorder:
            self._recorder.close()
        changes = {key: value for key, value in (("status", status), ("error", error)) if value}
        if changes:
            self._record = self._client.patch(self._path, changes)
        if not status:
            return
        self._wait()
        if self._claim is not None:
            self._claim.release()
            self._claim, self._ends_with_us = None, False

    def _wait(self):
        while self._record["status"] not in TERMINAL_STATES:
            self._record = self._client.get(self._path + "/wait", ended=1, timeout=_WAIT_SECONDS)

    def _warn(self):
        """What `show_output` prints of the run's warnings, for those who print nothing."""
        for text in self._record.get("warnings") or ():
            warnings.warn("Run %s: %s" % (self.id, text), stacklevel=3)

    def _stream(self, sink):
        say = _Sink(sink)
        say.line("RunId: " + self.id)
        say.line("Web View: " + self.get_portal_url())
        shown = None
        for event in follow(self._client, self.id):
            if event[0] == "log":
                if event[1] != shown:
                    shown = event[1]
                    say.heading(shown)
                say.text(event[2])
            elif event[0] == "end":
                self._record = event[1]
        say.line("\nExecution Summary\n=================")
        say.line("RunId: " + self.id)
        say.line("Web View: " + self.get_portal_url())
        if self._record.get("warnings"):
            say.line("\nWarnings:")
            for text in self._record["warnings"]:
                say.line(text)
        say.line("")

    def _log_text(self, name):
        from runyard_sdk.client import quoted_path

        return self._client.read("{}/files/{}".format(self._path, quoted_path(name))).decode("utf-8", "replace")


class _Sink:
    """Whole lines and pieces of a log on one stream: a line never begins behind an unfinished one."""

    def __init__(self, stream):
        self._stream, self._is_at_start = stream, True

    def line(self, text):
        self.text(("" if self._is_at_start else "\n") + text + "\n")

    def heading(self, log):
        self.line("\nStreaming {}\n{}\n".format(log, "=" * (len(log) + 10)))

    def text(self, text):
        if text:
            self._stream.write(text)
            self._stream.flush()
            self._is_at_start = text.endswith("\n")


def error_of(details, code):
    """The error to record, from what a caller of fail() gave: text, an exception, or a dict."""
    if isinstance(details, BaseException):
        message = "{}: {}".format(type(details).__name__, details)
    elif details is None:
        message = "The run was marked as failed."
    else:
        message = details if isinstance(details, str) else str(details)
    return {"error": {"code": str(code or "UserError"), "message": message, "messageParameters": {}, "details": []}}
