"""Follow a run through server events, across broken connections and restarts of the service."""

import json
import time

from runyard_sdk.client import quoted
from runyard_sdk.errors import ServiceUnavailable

_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 1.0
_BREAKS = 20


def follow(client, run_id):
    """Yield `("status", status, message)`, `("log", path, text)` and, last, `("end", record)`.

    After a broken connection a log resumes where it stopped. Raises ServiceUnavailable if the service does not come
    back in time (see runyard_sdk.transport), or disconnects repeatedly without news.
    """
    return _followed(client, run_id, _OneLog())


def follow_ranks(client, run_id, rank=None):
    """Like `follow`, for the logs of all ranks or of one: a log event is `("log", path, text, rank, role)`."""
    return _followed(client, run_id, _RankLogs(rank))


class _OneLog(object):
    """Read position in the run's log."""

    def __init__(self):
        self._position = {}

    def query(self):
        return dict(self._position)

    def take(self, event):
        self._position = {"log": event["log"], "offset": event["next"]}
        return "log", event["log"], event["text"]


class _RankLogs(object):
    """Read position in the log of each rank."""

    def __init__(self, rank):
        self._ranks, self._offsets = "all" if rank is None else rank, {}

    def query(self):
        return {"ranks": self._ranks, "from": ["%d~%s" % (offset, path) for path, offset in self._offsets.items()]}

    def take(self, event):
        self._offsets[event["log"]] = event["next"]
        return "log", event["log"], event["text"], event["rank"], event["role"]


def _followed(client, run_id, reading):
    from http.client import HTTPException

    breaks, last = 0, None
    while True:
        try:
            for event in _once(client, run_id, reading):
                if event != last:
                    breaks, last = 0, event
                yield event
                if event[0] == "end":
                    return
        except (OSError, ValueError, HTTPException):
            pass  # connection broken: keep what was read, request the rest again
        breaks += 1
        if breaks >= _BREAKS:
            raise ServiceUnavailable("The service breaks off each time it is asked about run {}.".format(run_id),
                                     hint="See service.log in its home folder.")
        time.sleep(min(_PAUSE_SECONDS * breaks, _LONGEST_PAUSE_SECONDS))


def _once(client, run_id, reading):
    answer = client.open("/runs/{}/stream".format(quoted(run_id)), **reading.query())
    try:
        for line in iter(answer.readline, b""):
            if not line.endswith(b"\n"):
                return
            if not line.strip():
                continue
            event = json.loads(line.decode("utf-8"))
            if "log" in event:
                yield reading.take(event)
            elif "end" in event:
                yield "end", event["end"]
            else:
                yield "status", event.get("status"), event.get("message", "")
    finally:
        answer.close()
