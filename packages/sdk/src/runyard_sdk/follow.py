"""Following a run: what the service pushes, across broken connections and restarts of the service."""

import json
import time

from runyard_sdk.client import quoted
from runyard_sdk.errors import ServiceUnavailable

_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 1.0
_ATTEMPTS = 3
_BREAKS = 20


def follow(client, run_id):
    """Yield `("status", status, message)`, `("log", path, text)` and, last, `("end", record)`.

    A log goes on where it stopped when the connection broke. Raises ServiceUnavailable when the service does
    not come back, or breaks off again and again with no news in between.
    """
    from http.client import HTTPException

    position, failures, breaks, last = {}, 0, 0, None
    while True:
        try:
            for event in _once(client, run_id, position):
                failures = 0
                if event != last:
                    breaks, last = 0, event
                yield event
                if event[0] == "end":
                    return
        except ServiceUnavailable:
            failures += 1
            if failures >= _ATTEMPTS:
                raise
        except (OSError, ValueError, HTTPException):
            pass  # the connection broke: what was read stands, the rest is asked for again
        breaks += 1
        if breaks >= _BREAKS:
            raise ServiceUnavailable("The service breaks off each time it is asked about run {}.".format(run_id),
                                     hint="See service.log in its home folder.")
        time.sleep(min(_PAUSE_SECONDS * breaks, _LONGEST_PAUSE_SECONDS))


def _once(client, run_id, position):
    answer = client.open("/runs/{}/stream".format(quoted(run_id)), log=position.get("log"),
                         offset=position.get("offset"))
    try:
        for line in iter(answer.readline, b""):
            if not line.endswith(b"\n"):
                return
            if not line.strip():
                continue
            event = json.loads(line.decode("utf-8"))
            if "log" in event:
                position["log"], position["offset"] = event["log"], event["next"]
                yield "log", event["log"], event["text"]
            elif "end" in event:
                yield "end", event["end"]
            else:
                yield "status", event.get("status"), event.get("message", "")
    finally:
        answer.close()
