"""What the load generator can ask for at most: a server that looks at nothing and answers the same to everything."""

import asyncio
from typing import cast

import uvloop

ANSWER = "nothing"
_BYTES = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n"nothing"'


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        self._transport.write(_BYTES)


async def _main(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", port)
    await server.serve_forever()


def serve(port: int) -> None:
    uvloop.run(_main(port))
