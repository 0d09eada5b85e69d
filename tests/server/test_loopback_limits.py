"""What clients of this machine may cost: the loopback port has the bounds of the one for other machines."""

import hashlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest
from fastapi import Request

from runyard.core.errors import RunyardError
from runyard.core.settings import Settings
from runyard.server.http import bodies
from runyard.server.http.bodies import MAX_UPLOADS
from runyard.server.http.listener import ConnectionLimits
from tests.attempts import script_of
from tests.open_service import answering
from tests.wire_client import WireClient

SIZE = 1 << 20


def _connect(client: WireClient) -> socket.socket:
    address = urlsplit(client.url)
    return socket.create_connection((address.hostname, address.port), timeout=60)


def _blob(client: WireClient, number: int) -> str:
    """The address of a blob that is not there."""
    return f"/blobs/{hashlib.sha256(f'{client.workspace} {number}'.encode()).hexdigest()}"


def test_a_million_headers_are_refused_at_once(client):
    with _connect(client) as huge:
        huge.sendall(b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n")
        lines = b"".join(b"X%d: y\r\n" % number for number in range(1_000_000))
        with pytest.raises(ConnectionError):
            huge.sendall(lines * 20)


def test_many_silent_senders_of_a_run_do_not_hold_up_the_owner(client):
    client.interactive_run(f"silent-{client.workspace}")
    script = script_of(client, f"silent-{client.workspace}")
    with ExitStack() as held:
        for number in range(MAX_UPLOADS + 6):
            held.enter_context(script.half_sent(_blob(client, number), SIZE))
        assert client.put_blob(b"of the owner" + client.workspace.encode())


def test_silent_senders_give_their_place_to_one_of_their_own_kind(client):
    with ExitStack() as held:
        # One more than there are places, so that one of them waits whatever the order in which they are read.
        silent = [held.enter_context(client.half_sent(_blob(client, n), SIZE)) for n in range(MAX_UPLOADS + 1)]
        assert client.put_blob(b"one more" + client.workspace.encode())
        by_socket = {one.sock: one for one in silent}
        answered, _, _ = select.select(by_socket, [], [], 60)
        answer = by_socket[answered[0]].getresponse()
        assert (answer.status, b"too_slow" in answer.read()) == (408, True)


def test_a_store_that_is_silent_holds_up_nobody_who_does_not_ask_for_it(client):
    client.interactive_run(f"asking-{client.workspace}")
    script = script_of(client, f"asking-{client.workspace}")
    with socket.create_server(("127.0.0.1", 0), backlog=200) as silent, ExitStack() as held:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/x"
        body = json.dumps({"body": {"type": "file", "sources": [{"url": address}]}}).encode()
        head = f"POST /api/v1{client.here}/datasets/resolve HTTP/1.1\r\nHost: localhost\r\n"
        head += f"Authorization: Bearer {script.token}\r\nContent-Length: {len(body)}\r\n\r\n"
        asking = [held.enter_context(_connect(client)) for _ in range(100)]
        for one in asking:
            one.sendall(head.encode() + body)
        silent.accept()[0].close()  # they are being answered
        assert client.get(client.here)
        answered, _, _ = select.select(asking, [], [], 0)
        assert len(answered) < 50  # those before it in one line for threads


def test_a_body_that_comes_too_slowly_is_given_up(monkeypatch):
    """In a listener of this process, with less patience: a minute otherwise."""
    monkeypatch.setattr(bodies, "SLOW_SECONDS", 0.2)
    monkeypatch.setattr(bodies, "SLOW_SECONDS_WHEN_BUSY", 0.05)
    with (
        answering(None, ConnectionLimits(), _app, is_outside=False) as port,
        socket.create_connection(("127.0.0.1", port), timeout=20) as slow,
    ):
        slow.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nx")
        assert b"TooSlow" in slow.makefile("rb").read()


async def _app(scope: Any, receive: Any, send: Any) -> None:
    """Takes the body as routes do, and tells what came of that."""
    scope["app"] = SimpleNamespace(state=SimpleNamespace(settings=Settings(Path())))
    try:
        told = await bodies.raw_body(Request(scope, receive))
    except RunyardError as problem:
        told = type(problem).__name__.encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
    await send({"type": "http.response.body", "body": told})


def test_a_sender_that_was_stopped_sends_again(client, tmp_path):
    """An honest one, which loses its place to others while it is stopped."""
    size = 64 << 20
    with (tmp_path / "large").open("wb") as file:
        for number in range(size >> 20):
            file.write(bytes([number]) * (1 << 20))
    program = (
        "import sys; from runyard_sdk.client import Client\n"
        "digest, path = sys.argv[1:]\n"
        "print('sends', flush=True)\n"
        "print(Client().upload('/blobs/' + digest, path, on_bytes=lambda size: print(size, flush=True)))"
    )
    digest = hashlib.sha256((tmp_path / "large").read_bytes()).hexdigest()
    facts = {"RUNYARD_URL": client.url, "RUNYARD_TOKEN": client.token}
    command = [sys.executable, "-c", program, digest, str(tmp_path / "large")]
    sender = subprocess.Popen(command, env={**os.environ, **facts}, stdout=subprocess.PIPE, text=True)
    try:
        assert sender.stdout is not None
        assert sender.stdout.readline() == "sends\n"
        assert int(sender.stdout.readline()) > 0
        sender.send_signal(signal.SIGSTOP)
        with ExitStack() as held:
            for number in range(MAX_UPLOADS):
                held.enter_context(client.half_sent(_blob(client, number), SIZE))
            assert client.put_blob(b"meanwhile" + client.workspace.encode())
        sender.send_signal(signal.SIGCONT)
        told, _ = sender.communicate(timeout=60)
        assert told.splitlines()[-1] == str({"size": size})
    finally:
        sender.kill()
        sender.wait()
