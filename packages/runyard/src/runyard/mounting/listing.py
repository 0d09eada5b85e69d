from collections.abc import Callable, Sequence

from runyard.mounting import protocol
from runyard.mounting.protocol import Request
from runyard.mounting.server import Reply

ListedName = tuple[bytes, int, int]
"""Name, node, mode."""


def packed_listing(request: Request, names: Sequence[ListedName], entry_of: Callable[[int], bytes] | None) -> Reply:
    """Reply to READDIR, or with `entry_of` to READDIRPLUS: as many names as fit, from the requested offset on."""
    _, offset, room = protocol.READ_IN.unpack_from(request.body)
    pieces: list[bytes] = []
    for at in range(offset, len(names)):
        name, node, mode = names[at]
        piece = protocol.directory_entry(node, name, mode, at + 1)
        if entry_of is not None:
            piece = (protocol.NO_ENTRY if name in (b".", b"..") else entry_of(node)) + piece
        room -= len(piece)
        if room < 0:
            break
        pieces.append(piece)
    return (b"".join(pieces),)
