import threading
from collections import OrderedDict
from dataclasses import dataclass

_FIRST_WINDOW = 2 << 20
_STEP_BYTES = 4 << 20
"""Step of a wide window: few large requests cost less than many small ones."""
_SLACK_BYTES = 2 << 20
_READERS_PER_FILE = 8
_FILES = 512


@dataclass
class _Sequence:
    """Position of one sequential reader in a file."""

    next: int
    ahead: int
    window: int = 0

    def is_met_by(self, start: int) -> bool:
        # The kernel reads ahead in parallel, so requests arrive a little out of order.
        return self.next - _SLACK_BYTES <= start <= self.next + _SLACK_BYTES


class Sequences:
    """Detects sequential reads of files, and says which range to read ahead."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._files: OrderedDict[bytes, list[_Sequence]] = OrderedDict()

    def advance(self, name: bytes, start: int, end: int, most: int) -> tuple[int, int]:
        """Note a read. Returns the range to fetch now, at most `most` bytes ahead; empty for random reads."""
        with self._guard:
            readers = self._files.setdefault(name, [])
            self._files.move_to_end(name)
            if len(self._files) > _FILES:
                self._files.popitem(last=False)
            for reader in readers:
                if reader.is_met_by(start):
                    return _advance(reader, end, most)
            readers.append(_Sequence(next=end, ahead=end))
            del readers[:-_READERS_PER_FILE]
            return end, end


def _advance(reader: _Sequence, end: int, most: int) -> tuple[int, int]:
    reader.window = min(max(2 * reader.window, _FIRST_WINDOW), most)
    reader.next = max(reader.next, end)
    begin = max(reader.ahead, reader.next)
    wanted = reader.next + reader.window
    if wanted - begin >= min(_STEP_BYTES, reader.window // 2):
        reader.ahead = wanted
        return begin, wanted
    return begin, begin
