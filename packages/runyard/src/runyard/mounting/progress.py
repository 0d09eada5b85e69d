class ReadProgress:
    """How much of a mount's data has been read for the first time."""

    def __init__(self, name: str, total: int | None) -> None:
        """`total` is None where nobody knows how much there is."""
        self._name, self._total = name, total
        self._of_file: dict[int, int] = {}
        self._shown = 0
        self.bytes = 0

    def add(self, node: int, count: int, size: int | None) -> None:
        """So much was read of a file of that size. Many threads may call it; a count that gets lost is not missed."""
        seen = self._of_file.get(node, 0)
        more = count if size is None else min(count, size - seen)
        if more > 0:
            self._of_file[node] = seen + more
            self.bytes += more

    def more(self) -> int:
        """How many bytes have been read since this was asked last."""
        before, self._shown = self._shown, self.bytes
        return self._shown - before

    def news(self) -> str:
        """A line when more has been read since the last one, else ""."""
        if not self.more():
            return ""
        whole = "" if self._total is None else f" of {megabytes(max(self._total, self.bytes))}"
        return f"{self._name}: {megabytes(self.bytes)}{whole} read"


def megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB"
