"""Status, details, waiting for and ending of a run."""

import sys
import warnings

from azureml.exceptions import ActivityFailedException, ExperimentExecutionException
from runyard_sdk.client import quoted_path
from runyard_sdk.follow import follow

TERMINAL_STATES = ("Completed", "Failed", "Canceled")
_WAIT_SECONDS = 60


class RunStatus:
    def get_status(self):
        """Ask the service for the status."""
        return self._fresh()["status"]

    @property
    def status(self):
        """Last known status; get_status() asks the service."""
        return self._record["status"]

    def get_details(self):
        """Details of the run, as a dict of camelCase keys."""
        record = self._fresh()
        names = record.get("log_files")
        names = self._log_names() if names is None else names
        addresses = log_addresses(self._client.transport.address, self._path, names)
        return details_of(record, addresses, self.experiment.workspace)

    def get_details_with_logs(self):
        """get_details() with the text of each log in place of its URL."""
        details = self.get_details()
        details["logFiles"] = {name: self._log_text(name) for name in details["logFiles"]}
        return details

    def get_detailed_status(self):
        """`{"status", "details"}`; the details say what a queued run waits for."""
        record = self._fresh()
        return {"status": record["status"], "details": record.get("message") or ""}

    def wait_for_completion(self, show_output=False, wait_post_processing=False, raise_on_error=True):
        """Wait until the run has ended and its outputs are stored; return get_details().

        `show_output` prints the log as it grows. A failed run raises ActivityFailedException unless `raise_on_error` is
        False. Ctrl-C raises an ExperimentExecutionException that is also a KeyboardInterrupt; the run continues. A
        script that does not catch it ends with two lines and exit code 130.
        """
        try:
            if show_output:
                self._stream(sys.stdout)
            else:
                self._wait()
                self._warn()
        except KeyboardInterrupt:
            raise interrupted(self.id) from None
        details = self.get_details()
        if raise_on_error and details["status"] == "Failed":
            import json

            raise ActivityFailedException(error_details=json.dumps(details.get("error") or {}, indent=4))
        return details

    def cancel(self):
        """Request cancellation; no effect on a run that has ended."""
        self._record = self._client.post_again(self._path + "/cancel")

    def start(self):
        """No effect: the service starts runs."""

    def complete(self, _set_status=True):
        """Flush, and end the run as Completed; a submitted one is stopped first."""
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
        """No effect: the node removes the working folder of a run."""

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
        """Issue the run's warnings as Python warnings, for callers that print no output."""
        for text in self._record.get("warnings") or ():
            warnings.warn("Run %s: %s" % (self.id, text), stacklevel=3)

    def _stream(self, sink):
        output = _Sink(sink)
        output.line("RunId: " + self.id)
        output.line("Web View: " + self.get_portal_url())
        shown = None
        for event in follow(self._client, self.id):
            if event[0] == "log":
                if event[1] != shown:
                    shown = event[1]
                    output.heading(shown)
                output.text(event[2])
            elif event[0] == "end":
                self._record = event[1]
        output.line("\nExecution Summary\n=================")
        output.line("RunId: " + self.id)
        output.line("Web View: " + self.get_portal_url())
        if self._record.get("warnings"):
            output.line("\nWarnings:")
            for text in self._record["warnings"]:
                output.line(text)
        output.line("")

    def _log_text(self, name):
        return self._client.read("{}/files/{}".format(self._path, quoted_path(name))).decode("utf-8", "replace")


class _Sink:
    """Writes log pieces and whole lines to one stream: a line never starts behind an unfinished one."""

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
    """Error record from the argument of fail(): text, an exception, or a dict."""
    if isinstance(details, BaseException):
        message = "{}: {}".format(type(details).__name__, details)
    elif details is None:
        message = "The run was marked as failed."
    else:
        message = details if isinstance(details, str) else str(details)
    return {"error": {"code": str(code or "UserError"), "message": message, "messageParameters": {}, "details": []}}


class RunDetailsDict(dict):
    """Details as v1's dict of camelCase keys. Keys are also attributes: `details.status`."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError("The details of a run have no {!r}; they have {}.".format(
                name, ", ".join(sorted(self))))


class DatasetOfRun(dict):
    """A dataset that a run read or wrote: has "id", and loads the dataset itself on first use."""

    def __init__(self, workspace, dataset_id):
        super().__init__(id=dataset_id)
        self._workspace, self._found = workspace, None

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if self._found is None:
            from azureml.core.dataset import Dataset

            self._found = Dataset.get_by_id(self._workspace, self["id"])
        return getattr(self._found, name)


def details_of(record, log_addresses, workspace):
    """Details of a run record. `log_addresses` is `{log path: URL}`; datasets are looked up in `workspace`."""
    details = RunDetailsDict(runId=record["id"], target=record["target"], status=record["status"])
    for key, field in (("startTimeUtc", "started_at"), ("endTimeUtc", "ended_at")):
        if record.get(field):
            details[key] = record[field]
    details["services"] = {}
    if record.get("error"):
        details["error"] = record["error"]
    if record.get("warnings"):
        details["warnings"] = [{"source": None, "message": text} for text in record["warnings"]]
    definition = record.get("definition") or {}
    details["properties"] = dict(record.get("properties") or {})
    details["inputDatasets"] = [_input_details(workspace, read) for read in record.get("inputs") or []]
    details["outputDatasets"] = [_output_details(workspace, written) for written in record.get("outputs") or []]
    if definition:
        details["runDefinition"] = {key: value for key, value in definition.items() if key != "runyard"}
    details["logFiles"] = log_addresses
    details["submittedBy"] = ((definition.get("runyard") or {}).get("submitter") or {}).get("user", "")
    return details


def log_addresses(service_address, run_path, names):
    return {name: "{}/api/v1{}/files/{}".format(service_address, run_path, quoted_path(name)) for name in names}


def _input_details(workspace, read):
    """Input details; a dataset that the script looked up itself is a reference without an input name."""
    if read["mode"] == "Reference":
        details = {"type": "Reference"}
    else:
        details = {"type": "RunInput", "inputName": read["input_name"], "mechanism": read["mode"]}
    return {"dataset": DatasetOfRun(workspace, read["dataset_id"]), "consumptionDetails": details}


def _output_details(workspace, written):
    dataset_id = written["dataset_id"]
    return {"identifier": {"savedId": dataset_id}, "outputType": "RunOutput",
            "outputDetails": {"outputName": written["output_name"]}, "dataset": DatasetOfRun(workspace, dataset_id)}


class WaitInterrupted(ExperimentExecutionException, KeyboardInterrupt):
    """Ctrl-C while waiting: an ExperimentExecutionException, as in SDK v1, and a KeyboardInterrupt."""


def interrupted(run_id):
    """Return the exception to raise. Uncaught, it prints its message and exits with code 130."""
    if not isinstance(sys.excepthook, _InterruptHook):
        sys.excepthook = _InterruptHook(sys.excepthook)
    return WaitInterrupted(
        "Interrupted; the run goes on.\nFollow it: runyard runs logs -f {0}; stop it: run.cancel() or "
        "runyard runs cancel {0}".format(run_id))


class _InterruptHook(object):
    """Exception hook that prints the message without a traceback. Notebooks do not call it."""

    def __init__(self, before):
        self._before = before

    def __call__(self, kind, error, trace):
        if not isinstance(error, WaitInterrupted) or hasattr(sys, "ps1"):
            self._before(kind, error, trace)
            return
        sys.stderr.write("\n" + error.message + "\n")
        raise SystemExit(130)  # used by the interpreter as exit code
