"""Workers that hang or are lost with requests in work."""

from dataclasses import replace

from runyard.core.records.web_services import ServingLimits
from runyard.serving.gateway.dispatch import Dispatcher
from tests.serving.links import HandLink, HandRequest, in_loop
from tests.serving.test_dispatch import LIMITS, submitted

IMPATIENT = replace(LIMITS, scoring_seconds=0.03)


async def fast_script(dispatcher: Dispatcher) -> HandLink:
    """A worker that gets several requests in one frame, since its last ones took no time."""
    link = HandLink()
    dispatcher.join(link)
    for _ in range(60):
        submitted(dispatcher, b"warm")
        link.answer(*await link.next_frame(), microseconds=1)
    return link


def test_of_a_lost_script_the_begun_request_is_told_the_cause_and_the_others_go_elsewhere() -> None:
    async def test() -> None:
        dispatcher = Dispatcher(LIMITS)
        dying = await fast_script(dispatcher)
        begun, second, third = submitted(dispatcher, b"1", b"2", b"3")
        assert len(await dying.next_frame()) == 3
        spare = HandLink(batches=True)
        dispatcher.join(spare)
        dying.end("The worker was ended by SIGSEGV.")
        refusal = await begun.refusal()
        assert refusal.status == 502
        assert "SIGSEGV" in refusal.message
        spare.answer(*await spare.next_frame())
        assert [await second.outcome, await third.outcome] == [b"2", b"3"]

    in_loop(test())


def test_the_one_after_an_answered_request_has_begun() -> None:
    async def test() -> None:
        dispatcher = Dispatcher(LIMITS)
        dying = await fast_script(dispatcher)
        first, second, third = submitted(dispatcher, b"1", b"2", b"3")
        dying.answer((await dying.next_frame())[0])
        dying.end("It fell.")
        assert await first.outcome == b"1"
        assert (await second.refusal()).status == 502
        assert not third.outcome.done()
        assert dispatcher.depth == 1

    in_loop(test())


def test_all_of_a_lost_batch_had_begun() -> None:
    async def test() -> None:
        dispatcher, link = Dispatcher(LIMITS), HandLink(batches=True)
        dispatcher.join(link)
        requests = submitted(dispatcher, b"1", b"2")
        await link.next_frame()
        link.end("It fell.")
        assert [(await request.refusal()).status for request in requests] == [502, 502]

    in_loop(test())


def test_a_request_is_retried_once_and_keeps_its_place() -> None:
    async def test() -> None:
        dispatcher = Dispatcher(LIMITS)
        first = await fast_script(dispatcher)
        begun, retried = submitted(dispatcher, b"1", b"2")
        await first.next_frame()
        submitted(dispatcher, b"3")
        first.end("It fell.")
        second = HandLink()
        dispatcher.join(second)
        assert [request.body for request in await second.next_frame()] == [b"2"]
        second.end("It fell again.")
        assert "fell again" in (await retried.refusal()).message
        assert begun.outcome.done()

    in_loop(test())


def test_a_request_that_was_lost_twice_before_it_began_is_not_tried_a_third_time() -> None:
    async def test() -> None:
        dispatcher = Dispatcher(LIMITS)
        first = await fast_script(dispatcher)
        submitted(dispatcher, b"holds the first")
        held = await first.next_frame()
        second = await fast_script(dispatcher)
        first.answer(*held)
        requests = submitted(dispatcher, *(str(number).encode() for number in range(6)))
        frames = [await first.next_frame(), await second.next_frame()]
        assert [len(frame) for frame in frames] == [3, 3]
        first.end("First.")
        second.answer(*frames[1])
        assert len(await second.next_frame()) == 2
        second.end("Second.")
        lost = [await request.refusal() for request in requests if request.was_retried]
        assert [(refusal.status, "Second." in refusal.message) for refusal in lost] == [(502, True), (502, True)]

    in_loop(test())


def test_what_is_sent_to_a_worker_that_just_went_stays_queued() -> None:
    async def test() -> None:
        dispatcher, link = Dispatcher(LIMITS), HandLink()
        dispatcher.join(link)
        request = submitted(dispatcher, b"1")[0]
        link.is_open = False
        other = HandLink()
        dispatcher.join(other)
        other.answer(*await other.next_frame())
        assert await request.outcome == b"1"

    in_loop(test())


def test_a_script_that_takes_too_long_is_answered_504_and_reported() -> None:
    async def test() -> None:
        dispatcher, link = Dispatcher(IMPATIENT), HandLink()
        dispatcher.join(link)
        request = submitted(dispatcher, b"1")[0]
        refusal = await request.refusal()
        assert (refusal.status, refusal.retry_seconds) == (504, 0)
        assert "0.03 seconds" in refusal.message
        assert "0.03 seconds" in await link.hung
        submitted(dispatcher, b"2")
        assert len(link.frames) == 1, "a hung worker gets nothing new"

    in_loop(test())


def test_a_worker_that_hangs_on_what_had_waited_for_it_is_noticed_in_time() -> None:
    """Whoever is queued may begin at any moment: the queue's own deadline is too late for that."""

    async def test() -> None:
        dispatcher, link = Dispatcher(LIMITS), HandLink()
        waiting = submitted(dispatcher, b"1")[0]
        dispatcher.reconfigure(replace(IMPATIENT, queue_seconds=3600))
        dispatcher.join(link)
        assert (await waiting.refusal()).status == 504
        assert "0.03 seconds" in await link.hung

    in_loop(test())


def test_the_time_of_a_request_begins_when_the_one_before_it_is_answered() -> None:
    async def test() -> None:
        dispatcher = Dispatcher(LIMITS)
        link = await fast_script(dispatcher)
        requests = submitted(dispatcher, b"1", b"2")
        frame = await link.next_frame()
        assert [request.begun_at > 0 for request in requests] == [True, False]
        link.answer(frame[0])
        assert requests[1].begun_at > requests[0].begun_at

    in_loop(test())


def test_behind_a_hung_request_nobody_is_lost() -> None:
    async def test() -> None:
        dispatcher = Dispatcher(LIMITS)
        link = await fast_script(dispatcher)
        hanging, behind = submitted(dispatcher, b"1", b"2")
        await link.next_frame()
        dispatcher.reconfigure(replace(IMPATIENT, queue_seconds=30.0))
        await link.hung
        assert (await hanging.refusal()).status == 504
        link.end("It was ended because it hung.")
        other = HandLink()
        dispatcher.join(other)
        other.answer(*await other.next_frame())
        assert await behind.outcome == b"2"

    in_loop(test())


def test_one_stuck_thread_is_reported_once_the_others_have_answered() -> None:
    async def test() -> None:
        dispatcher, link = Dispatcher(ServingLimits(scoring_seconds=0.05)), HandLink(requests_at_once=2)
        dispatcher.join(link)
        stuck = submitted(dispatcher, b"stuck")[0]
        await link.next_frame()
        assert (await stuck.refusal()).status == 504
        assert await link.hung

    in_loop(test())


def test_a_thread_that_goes_on_keeps_its_worker_for_its_time() -> None:
    async def test() -> None:
        dispatcher, link = Dispatcher(LIMITS), HandLink(requests_at_once=2)
        dispatcher.join(link)
        stuck, later = HandRequest(b"stuck"), HandRequest(b"later")
        dispatcher.submit(stuck)
        await link.next_frame()
        dispatcher.submit(later)
        frame = await link.next_frame()
        stuck.begun_at -= LIMITS.scoring_seconds
        dispatcher.reconfigure(LIMITS)
        assert (await stuck.refusal()).status == 504
        assert not link.hung.done()
        link.answer(*frame)
        assert await later.outcome == b"later"
        assert await link.hung

    in_loop(test())


def test_the_queue_of_a_client_that_left_a_hung_worker_does_not_hide_the_hang() -> None:
    async def test() -> None:
        dispatcher, link = Dispatcher(IMPATIENT), HandLink()
        dispatcher.join(link)
        gone = submitted(dispatcher, b"1")[0]
        await link.next_frame()
        dispatcher.drop(gone)
        assert await link.hung
        assert not gone.outcome.done()

    in_loop(test())
