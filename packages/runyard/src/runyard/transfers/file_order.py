from collections.abc import Callable, Iterator, Sequence

from runyard.model.data import SourceFile
from runyard.transfers.fetches import Source


class FileOrder:
    """Small files in the order in which they are likely to be read: the order of their dataset."""

    def __init__(self, make_source: Callable[[SourceFile], Source]) -> None:
        self._make_source = make_source
        self._files: list[SourceFile] = []
        self._sources: list[Source | None] = []
        self._positions: dict[str, dict[str, int]] = {}

    def add(self, files: Sequence[SourceFile]) -> None:
        for store in {file.store for file in files}:
            self._positions.setdefault(store, {})
        for position, file in enumerate(files, len(self._files)):
            self._positions[file.store][file.key] = position
        self._files += files
        self._sources += [None] * len(files)

    def position_of(self, file: SourceFile) -> int | None:
        position = self._positions.get(file.store, {}).get(file.key)
        return position if position is not None and self._files[position] is file else None

    def source(self, position: int) -> Source:
        source = self._sources[position]
        if source is None:
            source = self._sources[position] = self._make_source(self._files[position])
        return source

    def following(self, position: int, most: int) -> Iterator[tuple[int, Source]]:
        """Yield up to `most` sources from `position` on, each with the position after it."""
        for here in range(position, min(position + most, len(self._files))):
            yield here + 1, self.source(here)
