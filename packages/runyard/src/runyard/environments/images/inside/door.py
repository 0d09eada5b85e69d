"""Starts the programs it is told to, one after another.

It is given the path of a socket. Each message there is a line of JSON with the program's "command", "variables" and
"folder", and a descriptor that the program prints to; the answer is a line with how it ended. When the other side is
gone, killed or not, this ends and the container with it.
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
    door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    door.connect(path)
    while True:
        message, descriptors = received(door)
        if not message:
            return
        asked = json.loads(message.decode())
        door.sendall(json.dumps(outcome(asked, descriptors[0])).encode() + b"\n")


def received(door: socket.socket) -> "Tuple[bytes, array.array[int]]":  # noqa: UP006
    """A whole message and the descriptors that came with it; an empty one at the end."""
    message, descriptors = b"", array.array("i")
    while not message.endswith(b"\n"):
        piece, extra, _, _ = door.recvmsg(LONGEST_MESSAGE, socket.CMSG_SPACE(descriptors.itemsize))
        if not piece:
            return b"", descriptors
        message += piece
        for level, kind, content in extra:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                descriptors.frombytes(content[: descriptors.itemsize])
    return message, descriptors


def outcome(asked: Dict[str, Any], output: int) -> Dict[str, Any]:  # noqa: UP006
    try:
        for folder in (asked["folder"], asked["variables"]["HOME"], asked["variables"]["TMPDIR"]):
            os.makedirs(folder, exist_ok=True)
        ended = subprocess.call(
            asked["command"],
            env=asked["variables"],
            cwd=asked["folder"],
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
