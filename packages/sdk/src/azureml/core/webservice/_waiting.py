"""Waiting for a deployment, and telling how it goes."""
import sys
import time

from azureml._service import webservice_errors
from azureml.core.webservice._records import get_record, has_ended, has_failed
from azureml.exceptions import WebserviceException

_DOT_SECONDS = 1.0
_STREAMED_STEP = "environment"


def wait_until_deployed(service, show_output=False, timeout_sec=None):
    """Return when the newest revision answers; WebserviceException where it failed or the time is over."""
    deadline = None if timeout_sec is None else time.time() + timeout_sec
    record = get_record(service.workspace, service.name)
    progress = _Progress(service) if show_output else None
    while not has_ended(record):
        left = _DOT_SECONDS if deadline is None else min(_DOT_SECONDS, deadline - time.time())
        if left <= 0:
            _finish(service, record, progress, "TimedOut")
            raise WebserviceException("The web service %r is not deployed after %s seconds (timeout_sec), current "
                                      "service state: %s%s. The deployment goes on; see get_logs()." % (
                                          service.name, timeout_sec, record["state"], _during(record["step"])))
        if progress:
            progress.tell(record)
        with webservice_errors():
            record = service._client.get(service._path + "/wait", version=record["version"], timeout=left)
    _finish(service, record, progress, "Failed" if has_failed(record) else "Succeeded")
    if has_failed(record):
        raise WebserviceException(failure_text(record))


def failure_text(record):
    """Why a deployment failed: cause, next step, traceback and the last lines of the log."""
    error = record.get("error") or {"problem": "The service did not say why."}
    text = "The deployment of web service %r failed%s, current service state: %s.\n%s" % (
        record["name"], _during(error.get("step")), record["state"], error["problem"])
    if error.get("hint"):
        text += "\n" + error["hint"]
    if record["revision"]:
        text += "\nThe version that was deployed before answers on."
    traceback, logs = (error.get("traceback") or "").strip(), (error.get("logs") or "").strip()
    if traceback and traceback not in logs:
        text += "\n\n" + traceback
    if logs:
        text += "\n\nThe last lines of its log (all of it: service.get_logs()):\n" + logs
    return text


def _during(step):
    return " (step: %s)" % step if step else ""


def _finish(service, record, progress, outcome):
    service._take(service.workspace, record)
    if progress:
        progress.finish(record, outcome)


class _Progress(object):
    """The lines of v1, `Running.....` and the outcome; of an environment that takes its time, what building it says."""

    def __init__(self, service):
        self._service, self._told_notes = service, list(service._told_notes)
        self._log_offset, self._is_streaming, self._at_line_start = None, False, True
        self._log_path = service._path

    def tell(self, record):
        self._tell_notes(record)
        self._tell_building(record)
        self._write("." if not self._at_line_start else "Running.")
        self._at_line_start = False

    def finish(self, record, outcome):
        self._tell_notes(record)
        self._end_streaming()
        self._write(("Running" if self._at_line_start else "") + "\n" + outcome + "\n")
        self._write(self._service._finished_line(outcome) + "\n")

    def _tell_building(self, record):
        """Begins with the second look, so that an environment that is in the cache adds no line."""
        if record["step"] != _STREAMED_STEP:
            self._end_streaming()
        elif self._log_offset is None:
            self._log_path = self._service._building_path(record)
            self._log_offset = self._end_of_log() if record["revision"] else 0
        else:
            self._is_streaming = True
            self._stream_log()

    def _end_streaming(self):
        if self._is_streaming:
            self._stream_log()
            self._is_streaming = False

    def _tell_notes(self, record):
        for note in record["notes"]:
            if note not in self._told_notes:
                self._told_notes.append(note)
                self._tell_lines(note + "\n")

    def _end_of_log(self):
        """Where an update begins: what was written before is of the version that answers now."""
        return self._read_log(-1)[1]

    def _stream_log(self):
        content, self._log_offset = self._read_log(self._log_offset)
        lines = content.decode("utf-8", "replace").splitlines()
        news = [line for line in lines if not any(note in line for note in self._told_notes)]
        if news:
            self._tell_lines("\n".join(news))

    def _read_log(self, offset):
        address = "%s/logs?offset=%d" % (self._log_path, offset)
        with webservice_errors(), self._service._client.transport.stream(address) as answer:
            return answer.read(), int(answer.getheader("X-Runyard-Offset", 0))

    def _tell_lines(self, text):
        if not self._at_line_start:
            self._write("\n")
            self._at_line_start = True
        self._write(text if text.endswith("\n") else text + "\n")

    def _write(self, text):
        sys.stdout.write(text)
        sys.stdout.flush()
