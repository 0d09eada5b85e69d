class ByteRoom:
    """Limit on the bytes that all requests, or all answers, of a web service hold together."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0

    def has(self, size: int) -> bool:
        """Whether `size` more bytes fit. A single one always does: its size has a limit of its own."""
        return not self.held or self.held + size <= self.limit

    def take(self, size: int) -> bool:
        """Reserve bytes; returns False, and reserves nothing, when they do not fit."""
        if not self.has(size):
            return False
        self.held += size
        return True

    def give_back(self, size: int) -> None:
        self.held -= size
