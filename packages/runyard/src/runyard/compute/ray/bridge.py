"""The bridge: the only process of the service that imports ray.

`python -m runyard.compute.ray.bridge ADDRESS SERVICE FD`

It answers requests `{"id", "op", ...}` with `{"id", "answer"}` or `{"id", "error"}`, and sends `{"event": ...}`. It
exits when the service closes the socket, and when the cluster has not answered for a while: the service then starts a
new bridge, which is the only sure way to recover a lost connection of Ray.
"""

import os
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from runyard.compute.ray.bridge_cluster import BridgeCluster, connect
from runyard.compute.ray.link import JsonLines
from runyard.core.errors import EngineError, Json, RunyardError, to_wire

_BEAT_SECONDS = 1.0
_SILENCE_SECONDS = 10.0
_THREADS = 32


def main(address: str, service: str, descriptor: int) -> None:
    lines = JsonLines(socket.socket(fileno=descriptor))
    # ray.init cannot be interrupted, so it runs in a thread while this one notices the end of the service.
    requests = ThreadPoolExecutor(_THREADS, thread_name_prefix="request")
    bridge = Bridge(lines)
    threading.Thread(target=bridge.connect, args=(address, service), daemon=True).start()
    for message in lines.read():
        requests.submit(bridge.serve, message)
    os._exit(0)


class Bridge:
    def __init__(self, lines: JsonLines) -> None:
        self._lines = lines
        self._cluster: BridgeCluster | None = None
        self._answered_at = time.monotonic()

    def connect(self, address: str, service: str) -> None:
        """Connect and send `connected`, or send why it failed and exit. Exits also when the cluster is lost."""
        try:
            cluster = connect(address, service, self._send)
            cluster.beat()
        except Exception as e:  # Ray raises anything; the service gets it as a message
            self._send({"event": "failed", "error": to_wire(_to_runyard_error(address, e))})
            os._exit(1)
        self._cluster, self._answered_at = cluster, time.monotonic()
        self._send({"event": "connected"})
        threading.Thread(target=self._beat, args=(cluster,), daemon=True).start()
        while time.monotonic() - self._answered_at < _SILENCE_SECONDS:
            time.sleep(_BEAT_SECONDS)
        os._exit(1)

    def serve(self, message: Json) -> None:
        try:
            if self._cluster is None:
                raise EngineError("The Ray cluster is being connected to.")
            answer = {"id": message["id"], "answer": self._cluster.do(message["op"], message)}
        except RunyardError as e:
            answer = {"id": message["id"], "error": to_wire(e)}
        except Exception as e:
            words = f"Ray could not do {message['op']!r}: {type(e).__name__}: {_in_brief(e)}"
            answer = {"id": message["id"], "error": to_wire(EngineError(words))}
        self._send(answer)

    def _beat(self, cluster: BridgeCluster) -> None:
        while True:
            try:
                cluster.beat()
                self._answered_at = time.monotonic()
            except Exception:  # only the time since the last answer counts
                pass
            time.sleep(_BEAT_SECONDS)

    def _send(self, message: Json) -> None:
        try:
            self._lines.send(message)
        except OSError:
            os._exit(0)


def _to_runyard_error(address: str, error: Exception) -> RunyardError:
    if isinstance(error, RunyardError):
        return error
    words = f"{error} {error.__cause__}"
    if "AuthToken" in words or "AuthenticationError" in words:
        return EngineError(
            f"The Ray cluster at {address} wants a token that the service does not have.",
            hint="Start the service with RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH naming the file that holds it.",
        )
    return EngineError(
        f"The Ray cluster at {address} does not answer: {_in_brief(error)}",
        hint="Check that its head runs and that the address is right.",
    )


def _in_brief(error: Exception) -> str:
    """First and last line of an error: Ray puts a traceback between them."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return " ".join(line[:300] for line in dict.fromkeys([lines[0], lines[-1]]))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
