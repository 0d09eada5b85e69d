import json
import os
import time
from contextlib import contextmanager

from runyard_sdk import API, WIRE, __version__
from runyard_sdk.discovery import locate
from runyard_sdk.errors import NotFound, RunyardError, ServiceUnavailable, from_wire

BASE = "/api/v1"
_BLOCK = 1 << 20
_REPEATABLE = ("GET", "HEAD", "PUT", "PATCH", "DELETE")
_SILENCE_SECONDS = 120
_PATIENCE_SECONDS = 60
_PATIENCE_WITH_STRANGERS_SECONDS = 5
_SHORTEST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.02, 1.0
# Responses of a proxy, without an error code: the service is down, or the body came too slowly.
_FROM_A_PROXY = (408, 502, 503, 504)


class Transport:
    """One persistent connection per thread to the service, wherever it is now.

    A refused connection is retried after locating the service again (which starts it where that is ours to do). A
    request that may have reached the service is repeated only when that is harmless; so is one refused with an
    `is_retried` error. Retries end 60 seconds after the request's first failure; 5 where the URL was given and has
    never answered, because it may be mistyped. Every error passes through `translate`, which may return another
    exception to raise in its place.
    """

    def __init__(self, translate=lambda error: error, find=locate):
        import threading

        self.translate, self._find = translate, find
        self._service, self._has_answered = None, False
        self._local = threading.local()

    @property
    def address(self):
        """Last known URL of the service."""
        return self.service.url

    @property
    def service(self):
        """Last known service, with its token."""
        return self._known_service()

    def request(self, method, path, body=None, headers=None, repeatable=None):
        """Return the response as bytes. `body` is bytes, an open file or None."""
        if repeatable is None:
            repeatable = method in _REPEATABLE
        return self._translated(method, path, body, headers or {}, repeatable, self._kept, _read)

    def open(self, path, method="GET", body=None, headers=None):
        """Open a response for streaming, on its own connection; close it when done."""
        headers = dict(headers or {}, Connection="close")
        return self._translated(method, path, body, headers, True, self._fresh)

    @contextmanager
    def stream(self, path, headers=None):
        """Stream a response on this thread's connection, which is dropped unless read to the end."""
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

    def _exchange(self, method, path, body, headers, repeatable, connect, finish=lambda answer: answer):
        """Result of `finish(response)`; errors while `finish` reads are retried too."""
        from http.client import HTTPException

        from runyard_sdk.trust import is_about_trust, untrusted

        retries, was_sent = _Retries(), False
        while True:
            service = self._known_service()
            try:
                connection = connect(service)
            except (OSError, ValueError) as error:
                if is_about_trust(error):
                    raise untrusted(service.url, error)
                self._retry(retries, service, error)
                continue
            try:
                answer = self._send(connection, method, path, body, headers, service)
                return finish(self._checked(connection, answer))
            except (OSError, HTTPException) as error:
                self._drop(connection)
                if not repeatable:
                    raise self._unavailable(service, error)
                was_sent = True
                self._retry(retries, service, error)
                if hasattr(body, "seek"):
                    body.seek(0)
            except RunyardError as error:
                # A response of the service: the connection is in sync.
                if was_sent and method == "DELETE" and isinstance(error, NotFound):
                    return b""  # the interrupted request has deleted it
                if not (error.is_retried and repeatable and retries.go_on(self._patience())):
                    raise
                self._drop(connection)
                if hasattr(body, "seek"):
                    body.seek(0)
            except BaseException:
                self._drop(connection)  # it is in the middle of a request
                raise

    def _retry(self, retries, service, error):
        """Pause and locate the service again. Raises ServiceUnavailable after too long."""
        if not retries.go_on(self._patience(is_known=not service.fixed)):
            raise self._unavailable(service, error)
        self._forget(service)

    def _patience(self, is_known=False):
        is_known = is_known or self._has_answered or "AZUREML_RUN_ID" in os.environ
        return _PATIENCE_SECONDS if is_known else _PATIENCE_WITH_STRANGERS_SECONDS

    def _send(self, connection, method, path, body, headers, service):
        sent = {"Authorization": "Bearer " + service.token, "X-Runyard-Wire": WIRE,
                "X-Runyard-Api": str(API), "User-Agent": "runyard-sdk/" + __version__}
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
            self._has_answered = True
            return answer
        text = answer.read()
        try:
            found = json.loads(text.decode("utf-8"))
            found["code"]
        except (ValueError, KeyError, TypeError):
            if answer.status in _FROM_A_PROXY:
                raise OSError("a proxy answers {} {}".format(answer.status, answer.reason))
            found = {"code": "internal", "problem": "The service answered {} {}: {}".format(
                answer.status, answer.reason, text[:500].decode("utf-8", "replace")), "hint": ""}
        raise from_wire(_explained(found, answer))

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

        connection = connection_to(service.url, timeout=_SILENCE_SECONDS)
        connection.blocksize = _BLOCK  # for files that are sent; Python 3.6 ignores it
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
        """Forget the service; the next search is told what did not answer, so as not to return it unchanged."""
        if self._service is service:
            self._service = self._find(refused=service)

    def _unavailable(self, service, error):
        hint = ("Check RUNYARD_URL, and that the service runs there." if service.fixed
                else "See 'runyard status' and 'runyard logs'.")
        return ServiceUnavailable("The Runyard service at {} does not answer: {}.".format(service.url, error),
                                  hint=hint, url=service.url)


class _Retries:
    """Attempts of one request. Time counts from the first failure: before, a long poll may have waited."""

    def __init__(self):
        self._failed_at, self._pause = None, _SHORTEST_PAUSE_SECONDS

    def go_on(self, patience_seconds):
        """Pause before the next attempt; False once `patience_seconds` have passed since the first failure."""
        now = time.monotonic()
        if self._failed_at is None:
            self._failed_at = now
        if now - self._failed_at > patience_seconds:
            return False
        time.sleep(self._pause)
        self._pause = min(self._pause * 2, _LONGEST_PAUSE_SECONDS)
        return True


def _read(answer):
    return answer.read()


def _was_closed(connection):
    """Whether an idle connection is readable: closed by the other side, or out of sync."""
    import select

    if connection.sock is None:
        return True
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))


def _explained(found, answer):
    """Error as the service reports it; where a service before API 2 lacks a route, with both versions."""
    problem = str(found.get("problem", ""))
    if answer.getheader("X-Runyard-Api") or answer.status != 404 or not problem.startswith("There is no such route"):
        return found
    return dict(found, problem="The service does not know this request: it is of an earlier build (API 1) than this SDK "
                               "({}, API {}).".format(__version__, API),
                hint="Have it run what is installed: runyard down && runyard up. On another machine: pip install "
                     "--upgrade runyard there, then restart the service.")
