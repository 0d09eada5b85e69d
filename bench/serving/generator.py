"""The load: one process, any number of kept connections, each with one request under way. Read by `load.py` alone.

`python -m bench.serving.generator` takes one JSON line a round on stdin and answers with one on stdout. Of an answer it
looks at the status and finds the end. The bodies of a connection's first answer and of every SAMPLE-th after it are
told too, for whoever asked to compare.
"""

import asyncio
import gc
import json
import sys
import time
from typing import Any, cast

import uvloop

from bench.measuring import percentile

SAMPLE = 41
PATIENCE = 15.0
HEAD_END = b"\r\n\r\n"


class Round:
    """What came of one round; times before `count_from` and after `until` do not count, failures always do."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.requests = [text.encode("latin-1") for text in order["requests"]]
        self.count_from = time.perf_counter() + order["warm_seconds"]
        self.until = self.count_from + order["seconds"]
        self.latencies: list[float] = []
        self.failed: dict[str, int] = {}
        self.samples: dict[int, set[str]] = {}
        self.under_way = 0
        self.done = asyncio.Event()

    def fail(self, reason: str) -> None:
        self.failed[reason] = self.failed.get(reason, 0) + 1

    def keep(self, number: int, body: bytes) -> None:
        kept = self.samples.setdefault(number, set())
        if len(kept) < 8:
            kept.add(body.decode("utf-8", "replace"))

    def leave(self) -> None:
        self.under_way -= 1
        if not self.under_way:
            self.done.set()


class Connection(asyncio.Protocol):
    """Asks, waits for the whole answer, asks again. A connection that the server ends is opened anew, and that
    time is the server's."""

    def __init__(self, round_: Round, address: tuple[str, int], turn: int) -> None:
        self._round, self._address, self._turn = round_, address, turn
        self._number, self._answers, self._rest, self._begun = 0, 0, b"", 0.0
        self._waits = False

    async def open(self) -> None:
        self._begun = time.perf_counter()
        try:
            await asyncio.get_running_loop().create_connection(lambda: self, *self._address)
        except OSError as error:
            self._round.fail(f"connect: {error.strerror or error}")
            self._round.leave()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)
        self._ask()

    def _ask(self) -> None:
        self._turn += 1
        self._number = self._turn % len(self._round.requests)
        self._waits = True
        self._transport.write(self._round.requests[self._number])

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
        head = data.find(HEAD_END)
        at = data.find(b"ontent-length:", 0, head)
        if at < 0:
            at = data.find(b"ontent-Length:", 0, head)
        if head < 0 or at < 0 or len(data) < head + 4 + int(data[at + 14 : data.find(b"\r", at)]):
            self._rest = data
            return
        now = time.perf_counter()
        self._rest, self._waits = b"", False
        seen = self._round
        if data[9:12] != b"200":
            seen.fail(data[9:12].decode("latin-1"))
        elif seen.count_from <= now <= seen.until:
            seen.latencies.append(now - self._begun)
        if not self._answers % SAMPLE:
            seen.keep(self._number, data[head + 4 :])
        self._answers += 1
        if now < seen.until and data.find(b"onnection: close", 0, head) < 0:
            self._begun = now
            self._ask()
        else:
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if self._waits:
            self._round.fail("the connection ended before the answer")
        if time.perf_counter() < self._round.until:
            self._rest, self._waits = b"", False
            self._reopening = asyncio.ensure_future(self.open())
        else:
            self._round.leave()


async def play(order: dict[str, Any]) -> dict[str, Any]:
    round_ = Round(order)
    count = round_.under_way = int(order["connections"])
    cpu = time.process_time()
    for turn in range(count):
        await Connection(round_, (order["host"], order["port"]), turn).open()
    try:
        await asyncio.wait_for(round_.done.wait(), round_.until - time.perf_counter() + PATIENCE)
    except TimeoutError:
        round_.failed["no answer"] = round_.under_way
    return told(round_, order, time.process_time() - cpu)


def told(round_: Round, order: dict[str, Any], cpu: float) -> dict[str, Any]:
    milliseconds = [1000 * taken for taken in round_.latencies] or [float("nan")]
    return {
        "answers": len(round_.latencies),
        "rate": len(round_.latencies) / order["seconds"],
        "p50": percentile(milliseconds, 50),
        "p99": percentile(milliseconds, 99),
        "longest": max(milliseconds),
        "failed": round_.failed,
        "samples": {str(number): sorted(bodies) for number, bodies in round_.samples.items()},
        "cpu": cpu / (order["seconds"] + order["warm_seconds"]),
    }


def main() -> None:
    gc.disable()  # a collection in the generator would look like a slow answer
    for line in sys.stdin:
        print(json.dumps(uvloop.run(play(json.loads(line)))), flush=True)
        gc.collect()


if __name__ == "__main__":
    main()
