class ByteRoom:
    """A bound on the bytes that a web service's requests, or its answers, hold together."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0

    def has(self, size: int) -> bool:
        """One alone is never too much: its own size has a limit of its own."""
        return not self.held or self.held + size <= self.limit

    def take(self, size: int) -> bool:
        """False when it would be too much."""
        if not self.has(size):
            return False
        self.held += size
        return True

    def give_back(self, size: int) -> None:
        self.held -= size
