import asyncio
from typing import Protocol


class Member(Protocol):
    def look(self) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


class Crowd:
    """The open connections of a port, looked at once in a while."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._members: set[Member] = set()
        self.emptied = asyncio.Event()
        self.emptied.set()
        self.look_count = 0
        """Grows with every look: the clock of connections."""

    def __len__(self) -> int:
        return len(self._members)

    def enter(self, member: Member) -> bool:
        """False when there are too many."""
        if len(self._members) >= self._most:
            return False
        self._members.add(member)
        self.emptied.clear()
        return True

    def leave(self, member: Member) -> None:
        self._members.discard(member)
        if not self._members:
            self.emptied.set()

    def look(self) -> None:
        self.look_count += 1
        for member in list(self._members):
            member.look()

    def close(self) -> None:
        """Each ends after the answer that it waits for."""
        for member in list(self._members):
            member.close()

    def abort(self) -> None:
        for member in list(self._members):
            member.abort()
