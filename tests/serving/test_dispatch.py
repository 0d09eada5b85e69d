import asyncio
from dataclasses import replace

from runyard.core.records.web_services import ServingLimits
from runyard.serving.gateway.dispatch import Dispatcher
from tests.serving.links import HandLink, HandRequest, in_loop

LIMITS = ServingLimits()


def submitted(dispatcher: Dispatcher, *bodies: bytes) -> list[HandRequest]:
    requests = [HandRequest(body) for body in bodies]
    for request in requests:
        dispatcher.submit(request)
    return requests


async def a_turn() -> None:
    """What was submitted has been given to workers."""
    for _ in range(3):
        await asyncio.sleep(0)


def test_a_free_worker_that_batches_takes_all_that_is_queued() -> None:
    async def test() -> None:
        dispatcher, link = Dispatcher(LIMITS), HandLink(batches=True)
        dispatcher.join(link)
        requests = submitted(dispatcher, b"a", b"b", b"c")
        frame = await link.next_frame()
        assert [request.body for request in frame] == [b"a", b"b", b"c"]
        link.answer(*frame)
        assert [await request.outcome for request in requests] == [b"a", b"b", b"c"]

    in_loop(test())


def test_a_frame_has_a_bound() -> None:
    async def test() -> None:
        dispatcher, link = Dispatcher(LIMITS), HandLink(batches=True)
        dispatcher.join(link)
        submitted(dispatcher, *[b"x"] * 100)
        first = await link.next_frame()
        assert (len(first), dispatcher.depth, dispatcher.in_work) == (64, 36, 64)
        link.answer(*first)
        assert len(await link.next_frame()) == 36

    in_loop(test())


def test_large_bodies_do_not_share_a_frame() -> None:
    async def test() -> None:
        dispatcher, link = Dispatcher(LIMITS), HandLink(batches=True)
        dispatcher.join(link)
        submitted(dispatcher, bytes(6 << 20), bytes(6 << 20))
        first = await link.next_frame()
        assert len(first) == 1
        link.answer(*first)
        assert len(await link.next_frame()) == 1

    in_loop(test())


def test_a_slow_script_gets_one_request_at_a_time_and_a_fast_one_many() -> None:
    async def test() -> None:
        dispatcher, link = Dispatcher(replace(LIMITS, queued_requests=2000)), HandLink()
        dispatcher.join(link)
        submitted(dispatcher, *[b"x"] * 1500)
        sizes = []
        while dispatcher.depth or dispatcher.in_work:
            frame = await link.next_frame()
            sizes.append(len(frame))
            link.answer(*frame, microseconds=100)
        assert sizes[0] == 1
        assert 30 <= max(sizes) <= 50, "about 5 ms worth of requests of 0.1 ms"

        submitted(dispatcher, *[b"x"] * 4)
        frame = await link.next_frame()
        link.answer(*frame, microseconds=20_000)
        submitted(dispatcher, *[b"x"] * 4)
        assert len(await link.next_frame()) == 1

    in_loop(test())


def test_what_came_together_is_shared_between_the_free_workers() -> None:
    async def test() -> None:
        dispatcher, links = Dispatcher(LIMITS), [HandLink(batches=True), HandLink(batches=True)]
        for link in links:
            dispatcher.join(link)
        submitted(dispatcher, *[b"x"] * 10)
        assert [len(await link.next_frame()) for link in links] == [5, 5]

    in_loop(test())


def test_a_worker_with_threads_has_so_many_requests_at_once_and_no_more() -> None:
    async def test() -> None:
        dispatcher, link = Dispatcher(LIMITS), HandLink(requests_at_once=3)
        dispatcher.join(link)
        submitted(dispatcher, *[b"x"] * 5)
        first = await link.next_frame()
        assert (len(first), dispatcher.depth) == (3, 2)
        link.answer(first[1])
        assert len(await link.next_frame()) == 1

    in_loop(test())


def test_a_batching_worker_with_threads_has_so_many_frames_at_once() -> None:
    async def test() -> None:
        dispatcher, link = Dispatcher(LIMITS), HandLink(batches=True, requests_at_once=2)
        dispatcher.join(link)
        frames = []
        for _ in range(3):
            submitted(dispatcher, b"x", b"y")
            await a_turn()
            frames = link.frames
        assert [len(frame) for frame in frames] == [2, 2]
        link.answer(*frames[0])
        await a_turn()
        assert [len(frame) for frame in frames] == [2, 2, 2]

    in_loop(test())


def test_heads_go_to_workers_that_want_them_and_with_requests_that_are_not_plain() -> None:
    async def test() -> None:
        dispatcher, plain, raw = Dispatcher(LIMITS), HandLink(), HandLink(wants_heads=True)
        dispatcher.join(plain)
        submitted(dispatcher, b"x")
        assert (await plain.next_frame())[0].head == b""
        dispatcher.join(raw)
        dispatcher.submit(HandRequest())
        assert (await raw.next_frame())[0].head == b'{"method": "GET"}'
        other = HandLink()
        dispatcher.join(other)
        dispatcher.submit(HandRequest(is_plain=False))
        assert (await other.next_frame())[0].head == b'{"method": "GET"}'

    in_loop(test())


def test_one_request_too_many_is_refused_at_once() -> None:
    async def test() -> None:
        dispatcher = Dispatcher(replace(LIMITS, queued_requests=2))
        waiting = submitted(dispatcher, b"a", b"b")
        refusal = await submitted(dispatcher, b"c")[0].refusal()
        assert refusal.status == 503
        assert refusal.retry_seconds >= 1
        assert not any(request.outcome.done() for request in waiting)

    in_loop(test())


def test_a_request_that_no_worker_takes_in_time_is_refused() -> None:
    async def test() -> None:
        dispatcher = Dispatcher(replace(LIMITS, queue_seconds=0.02))
        refusal = await submitted(dispatcher, b"a")[0].refusal()
        assert (refusal.status, dispatcher.depth) == (503, 0)
        assert refusal.retry_seconds >= 1
        assert "within 0.02 seconds" in refusal.message

    in_loop(test())


def test_shorter_limits_count_for_those_who_wait_already() -> None:
    async def test() -> None:
        dispatcher = Dispatcher(LIMITS)
        request = submitted(dispatcher, b"a")[0]
        dispatcher.reconfigure(replace(LIMITS, queue_seconds=0.01))
        assert (await request.refusal()).status == 503

    in_loop(test())


def test_a_request_whose_client_went_away_is_not_begun() -> None:
    async def test() -> None:
        dispatcher, link = Dispatcher(LIMITS), HandLink(batches=True)
        gone, stays = submitted(dispatcher, b"gone", b"stays")
        dispatcher.drop(gone)
        dispatcher.join(link)
        assert [request.body for request in await link.next_frame()] == [b"stays"]
        assert not gone.outcome.done()
        assert not stays.outcome.done()
        assert dispatcher.metrics()["requests"] == {"499": 1}

    in_loop(test())


def test_the_answer_to_a_client_that_went_away_goes_nowhere() -> None:
    async def test() -> None:
        dispatcher, link = Dispatcher(LIMITS), HandLink()
        dispatcher.join(link)
        gone = submitted(dispatcher, b"gone")[0]
        frame = await link.next_frame()
        dispatcher.drop(gone)
        link.answer(*frame)
        assert not gone.outcome.done()
        submitted(dispatcher, b"next")
        assert (await link.next_frame())[0].body == b"next"

    in_loop(test())


def test_an_answer_that_nobody_asked_for_is_ignored() -> None:
    async def test() -> None:
        dispatcher, link = Dispatcher(LIMITS), HandLink()
        dispatcher.join(link)
        request = submitted(dispatcher, b"a")[0]
        frame = await link.next_frame()
        link.answer(frame[0]._replace(id=77), frame[0], frame[0])
        assert await request.outcome == b"a"

    in_loop(test())


def test_a_retired_worker_gets_nothing_new_and_is_drained_once_all_is_answered() -> None:
    async def test() -> None:
        dispatcher, old, new = Dispatcher(LIMITS), HandLink(), HandLink()
        dispatcher.join(old)
        request = submitted(dispatcher, b"old")[0]
        frame = await old.next_frame()
        dispatcher.join(new)
        drained = dispatcher.retire(old)
        submitted(dispatcher, b"new")
        assert (await new.next_frame())[0].body == b"new"
        assert not drained.done()
        old.answer(*frame)
        await drained
        assert await request.outcome == b"old"
        assert old.frames == []

    in_loop(test())


def test_an_idle_or_unknown_worker_is_retired_at_once() -> None:
    async def test() -> None:
        dispatcher, link = Dispatcher(LIMITS), HandLink()
        await dispatcher.retire(link)
        dispatcher.join(link)
        await dispatcher.retire(link)
        assert not dispatcher.is_served

    in_loop(test())


def test_a_closed_dispatcher_refuses_what_waits_and_what_comes() -> None:
    async def test() -> None:
        dispatcher = Dispatcher(LIMITS)
        waiting = submitted(dispatcher, b"a")[0]
        dispatcher.close("It is being deleted.")
        coming = submitted(dispatcher, b"b")[0]
        assert [(await r.refusal()).message for r in (waiting, coming)] == ["It is being deleted."] * 2

    in_loop(test())


def test_an_outage_is_told_at_once_while_no_worker_is_there() -> None:
    async def test() -> None:
        dispatcher, link = Dispatcher(LIMITS), HandLink()
        waiting = submitted(dispatcher, b"a")[0]
        dispatcher.set_outage("No worker starts.")
        assert (await waiting.refusal()).message == "No worker starts."
        dispatcher.join(link)
        served = submitted(dispatcher, b"b")[0]
        link.answer(*await link.next_frame())
        assert await served.outcome == b"b"

    in_loop(test())


def test_utilization_is_the_used_part_of_the_time_since_it_was_read() -> None:
    async def test() -> None:
        dispatcher, busy, idle = Dispatcher(LIMITS), HandLink(), HandLink()
        dispatcher.join(busy)
        assert dispatcher.utilization == 0.0
        submitted(dispatcher, b"a")
        frame = await busy.next_frame()
        dispatcher.join(idle)
        assert dispatcher.utilization <= 0.5
        await asyncio.sleep(0.02)
        assert 0.49 <= dispatcher.utilization <= 0.5
        busy.answer(*frame)
        assert dispatcher.utilization < 0.5
        await asyncio.sleep(0.001)
        assert dispatcher.utilization == 0.0

    in_loop(test())
