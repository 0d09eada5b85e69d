"""Threads in which requests do blocking work, so that the event loop never waits for the disk or the database."""

import asyncio
import atexit
import contextlib
import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple, ParamSpec, TypeVar

MAX_THREADS = 40
T = TypeVar("T")
P = ParamSpec("P")


class _Work(NamedTuple):
    act: Callable[[], Any]
    context: Context
    result: "asyncio.Future[Any]"


class WorkerThreads:
    """At most `most` threads, started as they are needed. Work beyond that waits in one line. Thread-safe.

    Our own, because anyio's threads and those of `concurrent.futures` cost the event loop three times and twice as much
    for each piece of work, and every request needs one.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: SimpleQueue[_Work | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._unfinished = 0
        self._threads: list[threading.Thread] = []

    async def run(self, act: Callable[[], T]) -> T:
        """Run `act` in a thread, with the context variables of the caller. Where the caller is cancelled, `act` still
        runs to its end, and nobody gets its result."""
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        with self._lock:
            if len(self._threads) <= self._unfinished < self._most:
                self._start_thread()
            self._unfinished += 1
        self._waiting.put(_Work(act, copy_context(), result))
        try:
            return await result
        finally:
            del result  # see _do_next

    def close(self) -> None:
        """Wait for all work, and end the threads."""
        with self._lock:
            ending, self._threads = self._threads, []
        for _ in ending:
            self._waiting.put(None)
        for thread in ending:
            thread.join()

    def _start_thread(self) -> None:
        if not self._threads:
            atexit.register(self.close)  # a thread that the interpreter cuts off may crash it
        thread = threading.Thread(target=self._work, name="request", daemon=True)
        thread.start()
        self._threads.append(thread)

    def _work(self) -> None:
        while self._do_next():
            pass

    def _do_next(self) -> bool:
        """Do one piece of work; False where there is no more. Keeps nothing of it alive afterwards.

        An exception refers to this frame by its traceback. If the frame still referred to the exception, both would
        live, with the request's body, until the next garbage collection.
        """
        work = self._waiting.get()
        if work is None:
            return False
        try:
            report = partial(_set_result, work.result, work.context.run(work.act))
        except BaseException as problem:  # whatever it is, the caller must get it
            report = partial(_set_exception, work.result, problem)
        with self._lock:
            self._unfinished -= 1
        with contextlib.suppress(RuntimeError):  # the loop is closed: the service has stopped
            work.result.get_loop().call_soon_threadsafe(report)
        del work, report
        return True


def _set_result(future: "asyncio.Future[T]", result: T) -> None:
    if not future.done():
        future.set_result(result)


def _set_exception(future: "asyncio.Future[Any]", problem: BaseException) -> None:
    if future.done():
        return
    if isinstance(problem, StopIteration):  # which a future cannot hold
        future.set_exception(RuntimeError("The work raised StopIteration."))
    else:
        future.set_exception(problem)


_THREADS = WorkerThreads(MAX_THREADS)


async def run_in_thread(act: Callable[P, T], *given: P.args, **more: P.kwargs) -> T:
    """Run a blocking function in one of the threads that all requests share."""
    return await _THREADS.run(partial(act, *given, **more))
