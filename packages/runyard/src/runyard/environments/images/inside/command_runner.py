"""First process of a build container: runs programs, one after another, as requested over a socket.

Argument: the path of the socket. A request is a line of JSON with "command", "variables" and "folder", together with
a descriptor for the program's output; the response is a line with its exit code or error. When the other side closes
the socket or is killed, this process exits and the container ends.
"""

import array
import json
import os
import socket
import subprocess
import sys
from typing import Any, Dict, Tuple  # noqa: UP035 - Python 3.6

LONGEST_MESSAGE = 1 << 20


def main(path: str) -> None:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(path)
    while True:
        message, descriptors = receive(connection)
        if not message:
            return
        request = json.loads(message.decode())
        connection.sendall(json.dumps(run(request, descriptors[0])).encode() + b"\n")


def receive(connection: socket.socket) -> "Tuple[bytes, array.array[int]]":  # noqa: UP006
    """Receive a message and its descriptor; an empty message at the end of the connection."""
    message, descriptors = b"", array.array("i")
    while not message.endswith(b"\n"):
        piece, extra, _, _ = connection.recvmsg(LONGEST_MESSAGE, socket.CMSG_SPACE(descriptors.itemsize))
        if not piece:
            return b"", descriptors
        message += piece
        for level, kind, content in extra:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                descriptors.frombytes(content[: descriptors.itemsize])
    return message, descriptors


def run(request: Dict[str, Any], output: int) -> Dict[str, Any]:  # noqa: UP006
    try:
        for folder in (request["folder"], request["variables"]["HOME"], request["variables"]["TMPDIR"]):
            os.makedirs(folder, exist_ok=True)
        ended = subprocess.call(
            request["command"],
            env=request["variables"],
            cwd=request["folder"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    except OSError as error:
        return {"error": str(error)}
    finally:
        os.close(output)
    return {"exit_code": ended}


if __name__ == "__main__":
    main(sys.argv[1])
