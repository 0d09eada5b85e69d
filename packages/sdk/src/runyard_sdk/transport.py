import json
import os
import time
from contextlib import contextmanager

from runyard_sdk import WIRE, __version__
from runyard_sdk.discovery import locate
from runyard_sdk.errors import RunyardError, ServiceUnavailable, from_wire

BASE = "/api/v1"
_BLOCK = 1 << 20
_REPEATABLE = ("GET", "HEAD", "PUT", "PATCH", "DELETE")
_FIXED_PATIENCE_SECONDS = 5
_IN_RUN_PATIENCE_SECONDS = 60


class Transport:
    """One kept connection per thread to the service, wherever it is now.

    A refused connection is tried again after looking for the service anew (which starts it where that is ours
    to do). A request that may have reached the service is repeated only when repeating is harmless.
    Every error passes through `translate`, which may return another exception to raise in its place.
    """

    def __init__(self, translate=lambda error: error, find=locate):
        import threading

        self.translate, self._find = translate, find
        self._service = None
        self._local = threading.local()

    @property
    def address(self):
        """Where the service is, as far as known now."""
        return self.service.url

    @property
    def service(self):
        """The same, with the token that it takes."""
        return self._known_service()

    def request(self, method, path, body=None, headers=None, repeatable=None):
        """The whole answer as bytes. `body` is bytes, an open file or None."""
        if repeatable is None:
            repeatable = method in _REPEATABLE
        return self._translated(method, path, body, headers or {}, repeatable, self._kept).read()

    def open(self, path, method="GET", body=None, headers=None):
        """An answer to be read as it comes, on a connection of its own; close it when done."""
        headers = dict(headers or {}, Connection="close")
        return self._translated(method, path, body, headers, True, self._fresh)

    @contextmanager
    def stream(self, path, headers=None):
        """An answer to be read to its end on this thread's kept connection, which is dropped when it is not."""
        answer = self._translated("GET", path, None, headers or {}, True, self._kept)
        connection = self._local.kept[2]
        try:
            yield answer
        except BaseException:
            self._drop(connection)
            raise
        if not answer.isclosed():
            self._drop(connection)

    def _translated(self, *request):
        try:
            return self._exchange(*request)
        except RunyardError as error:
            translated = self.translate(error)
        raise translated

    def _exchange(self, method, path, body, headers, repeatable, connect):
        from http.client import HTTPException

        from runyard_sdk.trust import is_about_trust, untrusted

        started = time.monotonic()
        pause = 0.02
        while True:
            service = self._known_service()
            try:
                connection = connect(service)
            except (OSError, ValueError) as error:
                if is_about_trust(error):
                    raise untrusted(service.url, error)
                self._forget(service)
                if self._is_hopeless(service, started):
                    raise self._unavailable(service, error)
                time.sleep(pause)
                pause = min(pause * 2, 1)
                continue
            try:
                answer = self._send(connection, method, path, body, headers, service)
            except (OSError, HTTPException) as error:
                self._drop(connection)
                self._forget(service)
                if not repeatable or self._is_hopeless(service, started):
                    raise self._unavailable(service, error)
                if hasattr(body, "seek"):
                    body.seek(0)
                continue
            return self._checked(connection, answer)

    def _send(self, connection, method, path, body, headers, service):
        sent = {"Authorization": "Bearer " + service.token, "X-Runyard-Wire": WIRE,
                "User-Agent": "runyard-sdk/" + __version__}
        sent.update(headers)
        connection.request(method, BASE + path, body=body, headers=sent)
        return connection.getresponse()

    def _checked(self, connection, answer):
        wire = answer.getheader("X-Runyard-Wire", WIRE)
        if wire != WIRE:
            self._drop(connection)
            raise ServiceUnavailable(
                "This SDK ({}) speaks wire {} and the service speaks wire {}.".format(__version__, WIRE, wire),
                hint="Upgrade the older one: pip install --upgrade runyard-sdk, or runyard on the service's side.")
        if answer.status < 400:
            return answer
        text = answer.read()
        try:
            found = json.loads(text.decode("utf-8"))
            found["code"]
        except (ValueError, KeyError, TypeError):
            found = {"code": "internal", "problem": "The service answered {} {}: {}".format(
                answer.status, answer.reason, text[:500].decode("utf-8", "replace")), "hint": ""}
        raise from_wire(found)

    def _kept(self, service):
        kept = getattr(self._local, "kept", None)
        if kept and kept[:2] == (os.getpid(), service.url) and not _was_closed(kept[2]):
            return kept[2]
        if kept and kept[0] == os.getpid():
            kept[2].close()
        connection = self._fresh(service)
        self._local.kept = (os.getpid(), service.url, connection)
        return connection

    def _fresh(self, service):
        from runyard_sdk.trust import connection_to

        connection = connection_to(service.url, timeout=120)
        connection.blocksize = _BLOCK  # of files that are sent; Python 3.6 ignores it
        connection.connect()
        return connection

    def _drop(self, connection):
        connection.close()
        kept = getattr(self._local, "kept", None)
        if kept and kept[2] is connection:
            self._local.kept = None

    def _known_service(self):
        if self._service is None:
            self._service = self._find()
        return self._service

    def _forget(self, service):
        """Look anew; what did not answer is told to the search, so that it is not found again as it was."""
        if self._service is service:
            self._service = self._find(refused=service)

    def _is_hopeless(self, service, started):
        if not service.fixed:
            patience = _IN_RUN_PATIENCE_SECONDS
        else:
            patience = _IN_RUN_PATIENCE_SECONDS if "AZUREML_RUN_ID" in os.environ else _FIXED_PATIENCE_SECONDS
        return time.monotonic() - started > patience

    def _unavailable(self, service, error):
        return ServiceUnavailable("The Runyard service at {} does not answer: {}.".format(service.url, error),
                                  hint="See 'runyard status', or check RUNYARD_URL.", url=service.url)


def _was_closed(connection):
    """A readable idle connection has been closed by the other side (or is out of step): not to be used again."""
    import select

    if connection.sock is None:
        return True
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))
