"""Log lines: JSON for programs, text for people."""

import json
import logging
import traceback
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Protocol

LEVELS = ("debug", "info", "warning", "error")
MOST_CHARACTERS = 64 * 1024
"""Limit of a message or traceback; a longer message loses its end, a traceback its beginning."""


class RequestFacts(Protocol):
    """The request that is being handled. Its run is known once the route is."""

    request_id: str

    @property
    def run(self) -> str | None: ...


current_request: ContextVar[RequestFacts | None] = ContextVar("current_request", default=None)


def log_line(record: logging.LogRecord, component: str, run: str | None = None) -> dict[str, Any]:
    """Fields of a log line. Its run is that of `extra={"run": RUN_ID}`, else of the request, else `run`."""
    request = current_request.get()
    run = getattr(record, "run", None) or (request.run if request else None) or run
    line: dict[str, Any] = {
        "time": format_time(record.created),
        "level": record.levelname.lower(),
        "component": component,
        "pid": record.process,
        "logger": record.name,
        "message": _message(record)[:MOST_CHARACTERS],
    }
    if run:
        line["run"] = str(run)
    if request:
        line["request"] = request.request_id
    if record.exc_info and record.exc_info[1] is not None:
        line["error"] = "".join(traceback.format_exception(*record.exc_info))[-MOST_CHARACTERS:]
    return line


def encode_line(line: Mapping[str, Any]) -> bytes:
    return json.dumps(line, default=str).encode("ascii") + b"\n"


def format_line(line: Mapping[str, Any]) -> str:
    """Text for people: one line, and the traceback below it. Control characters are escaped, because a message may hold
    input from strangers."""
    names = [f"{name}={line[name]}" for name in ("run", "request") if line.get(name)]
    head = f"{line.get('time', '-')} {line.get('level', '-'):<7} {line.get('component', '-'):<10}"
    text = " ".join([head, _plain(f"{line.get('message', '')}"), *map(_plain, names)])
    error = "".join(f"    {_plain(one)}\n" for one in str(line.get("error", "")).splitlines())
    return f"{text}\n{error}"


def format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # arguments that do not fit the message: a log call must not raise
        return f"{record.msg!s} {record.args!r}"


def _plain(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)
