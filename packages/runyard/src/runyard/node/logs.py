from runyard.errors import Conflict, NotFound
from runyard.model.runs import RunId
from runyard.node.growing_file import GrowingFile, GrowingFiles
from runyard.node.service_client import ServiceClient, quoted

PIECE_BYTES = 4 << 20


class LogShipping:
    """Sends the growing files of a run to its history, piece by piece. `files` are named as they are there.

    A file that turns out not to only grow is named once in `rewritten` and left alone from then on.
    """

    def __init__(self, run_id: RunId) -> None:
        self._address = f"/runs/{quoted(run_id)}/logs"
        self.files = GrowingFiles()
        self.rewritten: list[str] = []

    def resume(self, client: ServiceClient) -> None:
        """Learn what has been delivered. Raises ServiceAway."""
        delivered = client.ask("GET", self._address)
        for name, file in self.files.all():
            file.resume(int(delivered.get(name, 0)))

    def ship(self, client: ServiceClient) -> None:
        """One piece of every changed file. Raises ServiceAway; what was not acknowledged is sent again."""
        for name, file in self.files.unsettled():
            piece = file.read(PIECE_BYTES)
            if piece:
                self._send(client, name, file, piece)
            if file.was_rewritten:
                self.rewritten.append(name)
            if not piece or not file.has_more():
                self.files.settled(name)

    def _send(self, client: ServiceClient, name: str, file: GrowingFile, piece: bytes) -> None:
        try:
            client.call("POST", f"{self._address}/{quoted(name)}?offset={file.offset}", piece)
        except Conflict:
            self.resume(client)
            return
        except NotFound:
            pass  # The run was deleted: nobody will read it.
        file.advance(piece)
