from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

from runyard.core.errors import RunyardError

WRITERS = 8


def race(work: Callable[[int], Any], writers: int = WRITERS) -> list[Any]:
    """Call `work(0)`, `work(1)`, ... at the same moment; return the results. A RunyardError is that writer's result."""
    start = Barrier(writers)

    def run(number: int) -> Any:
        start.wait()
        try:
            return work(number)
        except RunyardError as error:
            return error

    with ThreadPoolExecutor(writers) as pool:
        return list(pool.map(run, range(writers)))
