"""Threads of blocking work: how many, and what happens to results, failures and cancelled callers."""

import asyncio
import gc
import threading
import weakref
from collections.abc import Iterator
from contextvars import ContextVar
from functools import partial

import pytest

from runyard.server.http.worker_threads import WorkerThreads

WORD: ContextVar[str] = ContextVar("WORD", default="")


@pytest.fixture
def threads() -> Iterator[WorkerThreads]:
    made = WorkerThreads(2)
    yield made
    made.close()


def test_work_has_the_context_of_its_caller_and_leaves_it_alone(threads):
    def work() -> str:
        found = WORD.get()
        WORD.set("theirs")
        return found

    async def ask() -> tuple[str, str]:
        WORD.set("mine")
        return await threads.run(work), WORD.get()

    assert asyncio.run(ask()) == ("mine", "mine")


@pytest.mark.parametrize("problem", [ValueError("no"), SystemExit(3), KeyboardInterrupt()])
def test_an_exception_reaches_the_caller_and_the_thread_goes_on(threads, problem):
    def fail() -> None:
        raise problem

    async def ask() -> str:
        with pytest.raises(type(problem)):
            await threads.run(fail)
        return await threads.run(lambda: "next")

    assert asyncio.run(ask()) == "next"


def test_stop_iteration_becomes_an_error_that_a_future_can_hold(threads):
    async def ask() -> None:
        await threads.run(lambda: next(iter(())))

    with pytest.raises(RuntimeError, match="StopIteration"):
        asyncio.run(ask())


def test_work_beyond_the_limit_waits_for_a_thread(threads):
    go, begun = threading.Event(), threading.Semaphore(0)
    names: list[str] = []

    def work() -> None:
        names.append(threading.current_thread().name)
        begun.release()
        assert go.wait(30)

    async def ask() -> None:
        asked = [asyncio.create_task(threads.run(work)) for _ in range(5)]
        for _ in range(2):
            while not begun.acquire(blocking=False):
                await asyncio.sleep(0)
        assert len(names) == 2
        go.set()
        await asyncio.gather(*asked)

    asyncio.run(ask())
    assert len(names) == 5


def test_one_piece_of_work_after_the_other_takes_one_thread(threads):
    async def ask() -> set[int]:
        return {await threads.run(threading.get_ident) for _ in range(20)}

    assert len(asyncio.run(ask())) == 1


def test_work_of_a_cancelled_caller_runs_to_its_end(threads):
    begun, go, done = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        assert go.wait(30)
        done.set()

    async def ask() -> str:
        asked = asyncio.create_task(threads.run(work))
        while not begun.is_set():
            await asyncio.sleep(0)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        go.set()
        return await threads.run(lambda: "next")

    assert asyncio.run(ask()) == "next"
    assert done.wait(30)


def test_work_that_ends_after_its_event_loop_leaves_the_thread_usable(threads):
    begun, go = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        assert go.wait(30)

    async def leave() -> None:
        asked = asyncio.create_task(threads.run(work))
        while not begun.is_set():
            await asyncio.sleep(0)
        asked.cancel()

    asyncio.run(leave())
    go.set()
    assert asyncio.run(threads.run(lambda: "next")) == "next"


def test_an_idle_thread_keeps_no_result_alive(threads):
    class Large:
        pass

    async def ask() -> "weakref.ref[Large]":
        return weakref.ref(await threads.run(Large))

    found = asyncio.run(ask())
    asyncio.run(threads.run(lambda: None))
    gc.collect()
    assert found() is None


@pytest.mark.parametrize("problem", [ValueError, StopIteration])
def test_failed_work_is_freed_without_a_garbage_collection(threads, problem):
    class Large:
        pass

    def fail(given: Large) -> None:
        raise problem

    async def ask() -> "weakref.ref[Large]":
        given = Large()
        with pytest.raises((problem, RuntimeError)) as raised:
            await threads.run(partial(fail, given))
        del raised
        return weakref.ref(given)

    gc.disable()
    try:
        found = asyncio.run(ask())
        asyncio.run(threads.run(lambda: None))
        assert found() is None
    finally:
        gc.enable()


def test_close_waits_for_work_and_ends_the_threads(threads):
    begun, go = threading.Event(), threading.Event()
    before = threading.active_count()

    def work() -> None:
        begun.set()
        assert go.wait(30)

    async def ask() -> None:
        asked = asyncio.create_task(threads.run(work))
        while not begun.is_set():
            await asyncio.sleep(0)
        closing = threading.Thread(target=threads.close)
        closing.start()
        assert closing.is_alive()
        go.set()
        await asked
        closing.join(30)
        assert not closing.is_alive()

    asyncio.run(ask())
    assert threading.active_count() == before
