"""Watching what `wait_for_completion(show_output=True)` prints, with the moment of each line."""

import io
import time
from contextlib import redirect_stdout

from azureml.core import Run


class Watch(io.TextIOBase):
    """A stdout that notes when each line was complete."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, float]] = []
        self._rest = ""

    def write(self, text: str) -> int:
        now = time.time()
        *whole, self._rest = (self._rest + text).split("\n")
        self.lines.extend((line, now) for line in whole)
        return len(text)


def follow(run: Run) -> list[tuple[str, float]]:
    """Every line the follower showed until the end, with the time it was seen at."""
    watch = Watch()
    with redirect_stdout(watch):
        run.wait_for_completion(show_output=True)
    return watch.lines
