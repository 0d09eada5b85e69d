import asyncio
from typing import Protocol


class Member(Protocol):
    def check_timeouts(self) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


class Places:
    """Number of connections that the process may hold on all ports together."""

    def __init__(self, most: int) -> None:
        self.most, self.taken = most, 0


class Crowd:
    """Open connections of a port, with a common clock for their timeouts."""

    def __init__(self, most: int, slots: Places) -> None:
        self._most, self._slots = most, slots
        self._members: set[Member] = set()
        self.emptied = asyncio.Event()
        self.emptied.set()
        self.ticks = 0
        """Number of timeout checks so far: the clock of the connections."""

    def __len__(self) -> int:
        return len(self._members)

    def enter(self, member: Member) -> bool:
        """Add a connection; returns False when there are too many."""
        if len(self._members) >= self._most or self._slots.taken >= self._slots.most:
            return False
        self._slots.taken += 1
        self._members.add(member)
        self.emptied.clear()
        return True

    def leave(self, member: Member) -> None:
        if member in self._members:
            self._members.remove(member)
            self._slots.taken -= 1
        if not self._members:
            self.emptied.set()

    def check_timeouts(self) -> None:
        """Advance the clock and let each connection end what takes too long."""
        self.ticks += 1
        for member in list(self._members):
            member.check_timeouts()

    def close(self) -> None:
        """Close each connection after the answer that it waits for."""
        for member in list(self._members):
            member.close()

    def abort(self) -> None:
        for member in list(self._members):
            member.abort()
