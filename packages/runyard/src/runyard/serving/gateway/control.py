"""Control socket of the gateway, server side: one JSON line each way per connection."""

import asyncio
import json
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from runyard.core.errors import Json, RunyardError, to_wire
from runyard.node.home_socket import OTHER_HOME, is_for_home, socket_address
from runyard.serving.gateway.identity import GATEWAY_SOCKET

_LONGEST_LINE = 1 << 20
_LINE_SECONDS = 10.0

Do = Callable[[str, Json], Awaitable[Json]]


async def start_control_server(home: Path, do: Do) -> asyncio.Server:
    """Listen on the home's socket. `do` gets the op and the whole request; its RunyardError is sent to the caller."""
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    (home / GATEWAY_SOCKET).unlink(missing_ok=True)
    with socket_address(home, GATEWAY_SOCKET) as address:
        opened.bind(address)
    os.chmod(home / GATEWAY_SOCKET, 0o600)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A caller that disconnects or stays silent is no error of the gateway.
        with suppress(OSError, TimeoutError, ValueError):
            try:
                async with asyncio.timeout(_LINE_SECONDS):
                    line = await reader.readline()
                answer = await _answer(home, line, do)
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
            finally:
                writer.close()

    return await asyncio.start_unix_server(serve, sock=opened, limit=_LONGEST_LINE, backlog=128)


async def _answer(home: Path, line: bytes, do: Do) -> Json:
    try:
        request = json.loads(line)
        if not is_for_home(home, request):
            return {OTHER_HOME: True}
        return await do(request["op"], request)
    except RunyardError as error:
        return {"error": to_wire(error)}
    except (ValueError, KeyError, TypeError) as error:
        return {"error": {"code": "invalid_argument", "problem": f"Not a request: {type(error).__name__}: {error}."}}
