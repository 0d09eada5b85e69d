import asyncio
from typing import Protocol


class Member(Protocol):
    def look(self) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


class Places:
    """How many connections a process may hold, whichever ports they came by."""

    def __init__(self, most: int) -> None:
        self.most, self.taken = most, 0


class Crowd:
    """The open connections of a port, looked at once in a while."""

    def __init__(self, most: int, places: Places) -> None:
        self._most, self._places = most, places
        self._members: set[Member] = set()
        self.emptied = asyncio.Event()
        self.emptied.set()
        self.look_count = 0
        """Grows with every look: the clock of connections."""

    def __len__(self) -> int:
        return len(self._members)

    def enter(self, member: Member) -> bool:
        """False when there are too many."""
        if len(self._members) >= self._most or self._places.taken >= self._places.most:
            return False
        self._places.taken += 1
        self._members.add(member)
        self.emptied.clear()
        return True

    def leave(self, member: Member) -> None:
        if member in self._members:
            self._members.remove(member)
            self._places.taken -= 1
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
