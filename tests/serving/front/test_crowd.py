import asyncio
from dataclasses import dataclass

from runyard.serving.gateway.http.connection_set import ConnectionSet, ConnectionSlots
from tests.serving.links import in_loop


@dataclass(eq=False)
class Visitor:
    def check_timeouts(self) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


def test_all_ports_of_a_process_share_its_places() -> None:
    async def test() -> None:
        places = ConnectionSlots(3)
        one, other = ConnectionSet(2, places), ConnectionSet(2, places)
        visitors = [Visitor() for _ in range(4)]
        assert [one.enter(visitors[0]), one.enter(visitors[1]), one.enter(visitors[2])] == [True, True, False]
        assert [other.enter(visitors[2]), other.enter(visitors[3])] == [True, False]
        one.leave(visitors[0])
        one.leave(visitors[0])
        assert places.taken == 2
        assert other.enter(visitors[3])
        await asyncio.wait_for(_emptied(one, visitors[1]), 1)

    async def _emptied(crowd: ConnectionSet, last: Visitor) -> None:
        crowd.leave(last)
        await crowd.emptied.wait()

    in_loop(test())
