"""Runs in place of ssh for mpirun: `rsh_agent.py FILE HOST COMMAND...` has the supervisor of HOST start a daemon.

FILE is a JSON file {"secret", "doors": {host: "unix:PATH" or "tcp:ADDRESS:PORT"}}. The exit code is the daemon's.
Runs alone on any Python from 3.6 on.
"""

import _socket
import os
import select
import sys
from _operator import _compare_digest as is_same

if False:  # the module is slow to load
    from typing import Any

try:  # The modules json and hashlib take longer to load than all that is done here.
    from _json import encode_basestring_ascii as quoted
except ImportError:  # another Python than the usual
    from json import dumps as quoted
try:
    from _sha256 import sha256  # type: ignore[import-not-found]
except ImportError:
    from hashlib import sha256

TIMEOUT_SECONDS = 20
PARENT_CHECK_SECONDS = 1.0
NOT_STARTED, LOST = 255, 254
HASH_BLOCK_BYTES = 64


class Refused(Exception):
    pass


class Ended(Exception):
    """The connection ended before the daemon: its exit code is lost."""


def main(arguments: "list[str]") -> int:
    servers_file, host, command = arguments[0], arguments[1], arguments[2:]
    with open(servers_file, "rb") as file:
        known = parsed(file.read())
    address = known["doors"].get(host.split("@")[-1])  # the name in the file
    if address is None:
        raise Refused(f"the run has no node {host!r}")
    return ask(address, known["secret"], command)


def ask(address: str, secret: str, words: "list[str]") -> int:
    connection = Connection(address)
    theirs, own = connection.read()["nonce"], os.urandom(16).hex()
    nonces = [theirs, own]
    connection.write(line_of(own, words, proof(secret, "asks", nonces, words)))
    answer = connection.read()
    if "error" in answer:
        raise Refused(answer["error"])
    if not is_same(str(answer.get("proof")), proof(secret, "answers", nonces, [])):
        raise Refused("something else answers at its address")
    last = connection.read()
    if "error" in last:
        raise Refused(last["error"])
    return int(last["exit"])


def proof(secret: str, side: str, nonces: "list[str]", words: "list[str]") -> str:
    """HMAC that proves that `side` knows the secret, over the words and the nonces of this connection."""
    text = "\0".join([side, *nonces, *words])
    return hmac_sha256(secret.encode(), text.encode("utf-8", "surrogateescape"))


def hmac_sha256(key: bytes, message: bytes) -> str:
    """RFC 2104."""
    if len(key) > HASH_BLOCK_BYTES:
        key = sha256(key).digest()
    padded = key.ljust(HASH_BLOCK_BYTES, b"\0")
    inner = sha256(bytes(byte ^ 0x36 for byte in padded) + message).digest()
    return str(sha256(bytes(byte ^ 0x5C for byte in padded) + inner).hexdigest())


class AsUsual:
    """Options of the JSON scanner: the usual ones."""

    strict, object_hook, object_pairs_hook = True, None, None
    parse_float, parse_int, parse_constant = float, int, float


def parsed(text: bytes) -> "dict[str, Any]":
    """Parse a JSON object. It begins at the first byte."""
    try:
        from _json import make_scanner
    except ImportError:
        import json

        return dict(json.loads(text.decode("utf-8")))
    try:
        return dict(make_scanner(AsUsual)(text.decode("utf-8"), 0)[0])  # type: ignore[arg-type]
    except StopIteration:
        raise ValueError("an answer that is no JSON") from None


def line_of(nonce: str, words: "list[str]", shown: str) -> bytes:
    listed = ", ".join(quoted(word) for word in words)
    return f'{{"nonce": {quoted(nonce)}, "words": [{listed}], "proof": {quoted(shown)}}}\n'.encode()


class Connection:
    """A connection with JSON lines, by `_socket`: the import of `socket` takes longer than all of this."""

    def __init__(self, address: str) -> None:
        kind, _, place = address.partition(":")
        self._socket = _socket.socket(_socket.AF_UNIX if kind == "unix" else _socket.AF_INET, _socket.SOCK_STREAM)
        self._socket.settimeout(TIMEOUT_SECONDS)
        self._unread, self._parent = b"", os.getppid()
        if kind == "unix":
            # A socket's address holds 107 bytes, and the folder's path may be longer.
            folder = os.open(os.path.dirname(place), os.O_RDONLY)
            self._socket.connect(f"/proc/self/fd/{folder}/{os.path.basename(place)}")
            os.close(folder)
        else:
            name, _, port = place.rpartition(":")
            self._socket.connect((name, int(port)))

    def write(self, line: bytes) -> None:
        self._socket.sendall(line)

    def read(self) -> "dict[str, Any]":
        while b"\n" not in self._unread:
            self._wait()
            piece = self._socket.recv(65536)
            if not piece:
                raise Ended("its supervisor is gone")
            self._unread += piece
        line, self._unread = self._unread.split(b"\n", 1)
        return parsed(line)

    def _wait(self) -> None:
        """Wait until there is something to read. Raises Ended when mpirun, the parent, has ended. There is no timeout:
        a dead supervisor's connection closes, and a stopped one (SIGSTOP) may go on."""
        while not select.select([self._socket], [], [], PARENT_CHECK_SECONDS)[0]:
            if os.getppid() != self._parent:
                raise Ended


if __name__ == "__main__":
    try:
        code = main(sys.argv[1:])
    except (Refused, OSError, ValueError, KeyError) as error:
        sys.stderr.write(f"Runyard: node {sys.argv[2]} did not start its MPI daemon: {error}.\n")
        code = NOT_STARTED
    except Ended:
        code = LOST
    sys.stderr.flush()
    os._exit(code)
