from collections.abc import Callable, Iterator, Sequence

from runyard.model.data import SourceFile
from runyard.transfers.fetches import Source


class FileOrder:
    """Small files in the order in which they are likely to be read: that of the dataset they belong to."""

    def __init__(self, make_source: Callable[[SourceFile], Source]) -> None:
        self._make_source = make_source
        self._files: list[SourceFile] = []
        self._sources: list[Source | None] = []
        self._places: dict[str, dict[str, int]] = {}

    def add(self, files: Sequence[SourceFile]) -> None:
        for store in {file.store for file in files}:
            self._places.setdefault(store, {})
        for place, file in enumerate(files, len(self._files)):
            self._places[file.store][file.key] = place
        self._files += files
        self._sources += [None] * len(files)

    def place_of(self, file: SourceFile) -> int | None:
        place = self._places.get(file.store, {}).get(file.key)
        return place if place is not None and self._files[place] is file else None

    def source(self, place: int) -> Source:
        source = self._sources[place]
        if source is None:
            source = self._sources[place] = self._make_source(self._files[place])
        return source

    def following(self, place: int, most: int) -> Iterator[tuple[int, Source]]:
        """Up to so many from that place on, each with the place after it."""
        for here in range(place, min(place + most, len(self._files))):
            yield here + 1, self.source(here)
