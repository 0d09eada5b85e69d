class ByteRoom:
    """A bound on the bytes that a web service's requests hold together."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0

    def take(self, size: int) -> bool:
        """False when it would be too much. One alone is never too much: its own size has a limit of its own."""
        if self.held and self.held + size > self.limit:
            return False
        self.held += size
        return True

    def give_back(self, size: int) -> None:
        self.held -= size
