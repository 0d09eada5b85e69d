from collections.abc import Iterable, Iterator

from runyard.core.principal import Principal
from runyard.services.content import Content
from runyard.services.data.datasets import Datasets

LONGEST_LINE_BYTES = 64 << 20


class DatasetLines:
    """Reads the lines of a dataset's files."""

    def __init__(self, datasets: Datasets) -> None:
        self._datasets = datasets

    def read(self, who: Principal, workspace: str, dataset_id: str) -> Iterator[bytes]:
        """Yield lines without line ends, file by file. Raises NotFound, and the errors of its datastore."""
        dataset = self._datasets.get(who, workspace, dataset_id)
        for file in self._datasets.resolve_saved_now(who, dataset, {}).resolved.files:
            yield from _lines(_pieces(self._datasets.open(who, workspace, dataset_id, file.source.path)))


def _pieces(content: Content) -> Iterator[bytes]:
    if content.path is not None:
        with content.path.open("rb") as opened:
            while piece := opened.read(1 << 20):
                yield piece
    elif content.pieces is not None:
        yield from content.pieces()
    elif content.part is not None:
        yield from map(bytes, content.part(0, content.size))


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        yield from (line.rstrip(b"\r") for line in whole)
        if len(rest) > LONGEST_LINE_BYTES:
            break
    if rest:
        yield rest
