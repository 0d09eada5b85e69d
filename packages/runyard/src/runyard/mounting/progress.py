class ReadProgress:
    """Counts the bytes of a mount that were read for the first time."""

    def __init__(self, name: str, total: int | None) -> None:
        """`total` is None if unknown."""
        self._name, self._total = name, total
        self._of_file: dict[int, int] = {}
        self._shown = 0
        self.bytes = 0

    def add(self, node: int, count: int, size: int | None) -> None:
        """Count a read of a file of that size. Without a lock: a lost count between threads does not matter."""
        seen = self._of_file.get(node, 0)
        more = count if size is None else min(count, size - seen)
        if more > 0:
            self._of_file[node] = seen + more
            self.bytes += more

    def new_bytes(self) -> int:
        """Bytes read since the last call."""
        before, self._shown = self._shown, self.bytes
        return self._shown - before

    def progress_line(self) -> str:
        """Log line if more was read since the last one, else ""."""
        if not self.new_bytes():
            return ""
        whole = "" if self._total is None else f" of {megabytes(max(self._total, self.bytes))}"
        return f"{self._name}: {megabytes(self.bytes)}{whole} read"


def megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB"
