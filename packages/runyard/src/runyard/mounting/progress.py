from runyard.model.data import SourceFile


class ReadProgress:
    """How much of a mount's data has been read for the first time."""

    def __init__(self, name: str, total: int) -> None:
        self._name, self._total = name, total
        self._of_file: dict[int, int] = {}
        self._shown = 0
        self.bytes = 0

    def add(self, node: int, file: SourceFile, count: int) -> None:
        """May be called by many threads; a lost count shows for a moment only."""
        seen = self._of_file.get(node, 0)
        more = count if file.size is None else min(count, file.size - seen)
        if more > 0:
            self._of_file[node] = seen + more
            self.bytes += more

    def news(self) -> str:
        """A line when more has been read since the last one, else ""."""
        if self.bytes == self._shown:
            return ""
        self._shown = self.bytes
        return f"{self._name}: {_megabytes(self.bytes)} of {_megabytes(max(self._total, self.bytes))} read"


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB"
