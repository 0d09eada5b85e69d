from typing import TextIO

_COLOURS = (36, 33, 35, 32, 34, 31, 96, 93, 95, 92, 94, 91)
MOST_CHARACTERS = 64 * 1024


class RankLines:
    """Writes logs of several ranks to one stream: whole lines, each prefixed with its rank.

    An unfinished line is kept until it ends or `close` is called. A very long one is cut into lines of
    MOST_CHARACTERS.
    """

    def __init__(self, stream: TextIO, *, coloured: bool) -> None:
        self._stream, self._coloured = stream, coloured
        self._open: dict[tuple[int, str], str] = {}

    def take(self, rank: int, role: str, text: str) -> None:
        *whole, rest = (self._open.pop((rank, role), "") + text).split("\n")
        while len(rest) > MOST_CHARACTERS:
            whole.append(rest[:MOST_CHARACTERS])
            rest = rest[MOST_CHARACTERS:]
        if rest:
            self._open[rank, role] = rest
        self._write(rank, role, whole)

    def close(self) -> None:
        for (rank, role), rest in sorted(self._open.items()):
            self._write(rank, role, [rest])
        self._open.clear()

    def _write(self, rank: int, role: str, lines: list[str]) -> None:
        if lines:
            prefix = self._prefix(rank, role)
            self._stream.write("".join(f"{prefix}{line}\n" for line in lines))
            self._stream.flush()

    def _prefix(self, rank: int, role: str) -> str:
        name = f"[rank {rank}]" if role == "worker" else f"[rank {rank} {role}]"
        return f"\x1b[{_COLOURS[rank % len(_COLOURS)]}m{name}\x1b[0m " if self._coloured else f"{name} "
